// The graph on a canvas: what is in view is drawn, in as much detail as can be read at the zoom. One canvas however
// large the graph, so that a picture of thousands of nodes pans and zooms as a small one does.
'use strict';

const ZOOM = {smallest: 0.01, largest: 3, labels: 0.5, nodes: 0.14, edges: 0.34};
const HOLD = 5;  // pixels: how close to an edge a click must be

class Picture {
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;  // {select(thing), hover(thing)}
    this.context = canvas.getContext('2d');
    this.model = this.layout = null;
    this.selected = null;   // {region} | {edge} | {node}
    this.matches = null;    // a set of nodes
    this.frame = {count: 0, nodes: 0, edges: 0, boxes: 0, milliseconds: 0};
    this.transform = d3.zoomIdentity;
    this.zoom = d3.zoom().scaleExtent([ZOOM.smallest, ZOOM.largest]).on('zoom', () => {
      this.transform = d3.event.transform;
      this.redraw();
    });
    d3.select(canvas).call(this.zoom);
    canvas.addEventListener('click', (event) => on.select(this.at(event.offsetX, event.offsetY)));
    canvas.addEventListener('mousemove', (event) => this.#hover(event));
    new ResizeObserver(() => this.#resize()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#readColours());
    this.#readColours();
  }

  show(model, layout, drawn) {
    this.model = model;
    this.layout = layout;
    this.nodes = drawn.nodes;  // of the model; layout.nodes[i] belongs to drawn.nodes[i]
    for (const node of model.nodes) node.x = undefined;  // not drawn
    this.nodes.forEach((node, i) => Object.assign(node, {x: layout.nodes[i].x, y: layout.nodes[i].y}));
    this.boxes = layout.boxes.map((box) => ({...box, region: model.regions[model.launches[box.launch]]}));
    this.edges = drawn.edges.map((edge, i) => ({edge, ...pathOf(layout.routes[i], layout.steps[i])}));
    this.byStyle = d3.nest().key(({edge}) => styleOf(edge)).entries(this.edges).map(({key, values}) => {
      const path = new Path2D();
      for (const value of values) path.addPath(value.path);
      return {style: key, path};
    });
    this.tree = d3.quadtree(this.nodes, (node) => node.x, (node) => node.y);
    this.selected = this.matches = null;
    this.fit();
  }

  fit(animated = false) {
    if (this.layout === null) return;
    const {width, height} = this.layout;
    this.#show({x: -20, y: -40, width: width + 40, height: height + 80}, 1, animated);
  }

  reveal(thing) {
    const centres = thing.node ? [thing.node] : thing.edge ? [this.model.nodes[thing.edge.from], this.model.nodes[thing.edge.to]]
      : this.boxes.filter((box) => box.region === thing.region).slice(0, 1);
    const drawn = centres.filter((c) => c.x !== undefined);
    if (drawn.length === 0) return;
    const x = d3.extent(drawn, (c) => c.x), y = d3.extent(drawn, (c) => c.y);
    this.#show({x: x[0] - 320, y: y[0] - 220, width: x[1] - x[0] + 640, height: y[1] - y[0] + 440}, 1, true);
  }

  #show(box, largest, animated) {
    const {clientWidth, clientHeight} = this.canvas;
    const k = Math.min(largest, clientWidth / box.width, clientHeight / box.height);
    const to = d3.zoomIdentity.translate(clientWidth / 2 - k * (box.x + box.width / 2), clientHeight / 2 - k * (box.y + box.height / 2)).scale(k);
    const still = !animated || matchMedia('(prefers-reduced-motion: reduce)').matches;
    const target = d3.select(this.canvas);
    (still ? target.interrupt() : target.transition().duration(350)).call(this.zoom.transform, to);
  }

  // Where a point of the layout is on the canvas, in pixels.
  onCanvas(point) {
    return {x: this.transform.applyX(point.x), y: this.transform.applyY(point.y)};
  }

  // What lies at a pixel: a node, an edge, a region, or nothing.
  at(pixelX, pixelY) {
    if (this.layout === null) return null;
    const [x, y] = this.transform.invert([pixelX, pixelY]);
    const inside = (box) => Math.abs(box.x - x) <= box.width / 2 && Math.abs(box.y - y) <= box.height / 2;
    let node = null;
    if (this.transform.k >= ZOOM.nodes) {
      this.tree.visit((quad, x0, y0, x1, y1) => {
        if (!quad.length) for (let leaf = quad; leaf; leaf = leaf.next) if (inside(leaf.data)) node = leaf.data;
        return x0 > x + NODE.widest || x1 < x - NODE.widest || y0 > y + NODE.height || y1 < y - NODE.height;
      });
    }
    if (node !== null) return {node};
    const edge = this.#edgeAt(x, y);
    if (edge !== null) return {edge};
    const box = this.boxes.find(inside);
    return box === undefined ? null : {region: box.region, launch: box.launch};
  }

  #edgeAt(x, y) {
    const reach = HOLD / this.transform.k;
    this.context.save();
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.lineWidth = 2 * reach;
    const near = this.edges.find(({path, x0, x1, y0, y1}) => x >= x0 - reach && x <= x1 + reach && y >= y0 - reach && y <= y1 + reach &&
      this.context.isPointInStroke(path, x, y));
    this.context.restore();
    return near === undefined ? null : near.edge;
  }

  #hover(event) {
    if (event.buttons !== 0) return;
    const thing = this.at(event.offsetX, event.offsetY);
    this.canvas.style.cursor = thing === null ? 'grab' : 'pointer';
    this.on.hover(thing);
  }

  #resize() {
    const ratio = window.devicePixelRatio || 1, {clientWidth, clientHeight} = this.canvas;
    const first = this.canvas.width === 300 && this.canvas.height === 150;  // a canvas that nobody has sized yet
    this.canvas.width = Math.max(1, Math.round(ratio * clientWidth));
    this.canvas.height = Math.max(1, Math.round(ratio * clientHeight));
    if (first) this.fit();
    this.redraw();
  }

  #readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    this.colours = {paper: read('--picture'), ink: read('--ink'), faint: read('--faint'), node: read('--node'), line: read('--line'),
                    mark: read('--mark'), dark: read('--is-dark') === '1'};
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const before = performance.now();
      this.#draw();
      this.frame.milliseconds = performance.now() - before;
      ++this.frame.count;
    });
  }

  #draw() {
    const {context: c, canvas, colours} = this, ratio = window.devicePixelRatio || 1, {k, x, y} = this.transform;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = colours.paper;
    c.fillRect(0, 0, canvas.width, canvas.height);
    if (this.layout === null) return;
    c.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
    const view = {x0: -x / k, y0: -y / k, x1: (canvas.clientWidth - x) / k, y1: (canvas.clientHeight - y) / k};
    const inView = (b) => b.x + b.width / 2 >= view.x0 && b.x - b.width / 2 <= view.x1 && b.y + b.height / 2 >= view.y0 && b.y - b.height / 2 <= view.y1;
    const boxes = this.boxes.filter(inView), nodes = this.nodes.filter(inView);
    for (const box of boxes) this.#drawBox(box);
    this.frame.edges = this.#drawEdges(view);
    for (const node of nodes) if (node.launch === null || k >= ZOOM.nodes) this.#drawNode(node);
    for (const box of boxes) this.#drawTitle(box);
    Object.assign(this.frame, {nodes: nodes.length, boxes: boxes.length});
  }

  #tint(hue, light, dark, saturation = 55) {
    return `hsl(${hue} ${saturation}% ${this.colours.dark ? dark : light}%)`;
  }

  #isChosen(region) {
    return this.selected?.region === region;
  }

  #drawBox(box) {
    const c = this.context, k = this.transform.k;
    c.beginPath();
    c.roundRect(box.x - box.width / 2, box.y - box.height / 2, box.width, box.height, 10);
    c.fillStyle = this.#tint(box.region.hue, 93, 17, 45);
    c.fill();
    c.lineWidth = this.#isChosen(box.region) ? Math.max(3, 2.5 / k) : Math.max(1.2, 0.8 / k);
    c.strokeStyle = this.#isChosen(box.region) ? this.colours.mark : this.#tint(box.region.hue, 58, 48);
    c.stroke();
  }

  // The name on top of its box; where nodes are too small to be seen, in the middle and larger.
  #drawTitle(box) {
    const c = this.context, k = this.transform.k, middle = k < ZOOM.nodes;
    const size = middle ? 11 / k : Math.max(12, Math.min(11 / k, 20));
    if (size > box.height * 0.8 || box.width * k < 36) return;
    c.font = `600 ${size}px system-ui, sans-serif`;
    c.fillStyle = this.#tint(box.region.hue, 28, 82, 50);
    c.textAlign = middle ? 'center' : 'left';
    c.textBaseline = 'middle';
    const room = box.width - 16, text = cut(box.region.name, Math.floor(room / (0.6 * size)));
    c.fillText(text, middle ? box.x : box.x - box.width / 2 + 10, middle ? box.y : box.y - box.height / 2 + 16);
  }

  #styleEdge(style) {
    const c = this.context, k = this.transform.k;
    const hue = style.startsWith('unfused ') ? REASONS[style.slice(8)]?.hue ?? 0 : null;
    c.strokeStyle = hue === null ? this.colours.line : this.#tint(hue, 55, 62, hue === 215 ? 18 : 70);
    c.lineWidth = Math.max(hue === null ? 1 : 1.3, 0.6 / k);
    c.setLineDash(style === 'input' ? [4, 4] : []);
  }

  #drawEdges(view) {
    const c = this.context, chosen = this.selected?.edge, around = this.selected?.node;
    let count = 0;
    if (this.transform.k < ZOOM.edges) {
      for (const {style, path} of this.byStyle) {
        if (style === 'inside') continue;
        this.#styleEdge(style);
        c.stroke(path);
        ++count;
      }
    }
    const strokes = count;
    const isMarked = ({edge}) => edge === chosen || (around && (edge.from === around.index || edge.to === around.index));
    const inView = ({x0, x1, y0, y1}) => x1 >= view.x0 && x0 <= view.x1 && y1 >= view.y0 && y0 <= view.y1;
    const marked = this.edges.filter(isMarked);
    const others = this.transform.k < ZOOM.edges ? [] : this.edges.filter((edge) => inView(edge) && !isMarked(edge));
    for (const {edge, path, tip} of [...others, ...marked]) {
      this.#styleEdge(styleOf(edge));
      if (count >= others.length + strokes) {
        c.strokeStyle = this.colours.mark;
        c.lineWidth = Math.max(2.6, 2 / this.transform.k);
      }
      c.stroke(path);
      c.setLineDash([]);
      c.fillStyle = c.strokeStyle;
      c.fill(tip);
      ++count;
    }
    c.setLineDash([]);
    return count;
  }

  #drawNode(node) {
    const c = this.context, k = this.transform.k, left = node.x - node.width / 2, top = node.y - node.height / 2;
    c.globalAlpha = this.matches !== null && !this.matches.has(node) ? 0.25 : 1;
    c.beginPath();
    c.roundRect(left, top, node.width, node.height, node.isInput ? node.height / 2 : 6);
    c.fillStyle = node.region ? this.#tint(node.region.hue, 82, 30, 48) : this.colours.node;
    c.fill();
    const marked = this.selected?.node === node || this.matches?.has(node);
    c.lineWidth = marked ? Math.max(3, 2 / k) : 1;
    c.strokeStyle = marked ? this.colours.mark : node.region ? this.#tint(node.region.hue, 60, 50, 40) : this.colours.faint;
    c.stroke();
    if (k >= ZOOM.labels) {
      c.textAlign = 'center';
      c.textBaseline = 'middle';
      c.fillStyle = this.colours.ink;
      c.font = '600 12.5px system-ui, sans-serif';
      c.fillText(cut(node.label, 24), node.x, node.y - 7);
      c.fillStyle = this.colours.faint;
      c.font = '10.5px system-ui, sans-serif';
      c.fillText(cut(node.below, 28), node.x, node.y + 9);
    }
    c.globalAlpha = 1;
  }
}

function styleOf(edge) {
  return edge.kind === 'unfused' ? `unfused ${edge.refusal?.reason ?? ''}` : edge.kind;
}

function cut(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`;
}

// A route as a path, its arrow tip, and the rectangle around both.
function pathOf(route, inSteps) {
  const path = new Path2D(), tip = new Path2D(), end = route[route.length - 1];
  if (inSteps) {
    path.moveTo(route[0].x, route[0].y);
    for (let i = 1; i + 1 < route.length; ++i) path.arcTo(route[i].x, route[i].y, route[i + 1].x, route[i + 1].y, 8);
    path.lineTo(end.x, end.y);
  } else {
    d3.line().x((p) => p.x).y((p) => p.y).curve(d3.curveBasis).context(path)(route);
  }
  tip.moveTo(end.x, end.y);
  tip.lineTo(end.x - 4, end.y - 8);
  tip.lineTo(end.x + 4, end.y - 8);
  tip.closePath();
  const [x0, x1] = d3.extent(route, (p) => p.x), [y0, y1] = d3.extent(route, (p) => p.y);
  return {path, tip, x0, x1, y0, y1};
}
