// Where everything stands. Runs in a worker, behind dagre in the same script, which lays out small layered
// graphs; this file cuts the graph of a report into small ones:
//
//   1. Each launch of a region: its nodes as a graph of their own. Launches of equal structure share the result.
//   2. The launches and all other nodes as boxes, in levels by longest path, levels in columns like a newspaper:
//      a deep model fills the page instead of being a thread.
//   3. The boxes of each column. Edges that leave their column, or are long, take the gutters between columns.
//
// So dagre never sees more than a column, and the work grows with the number of nodes, not with its square.
//
// layOut({nodes: [{width, height, launch}], edges: [[from, to]], aspect})
//   -> {nodes: [{x, y}], boxes: [{launch, x, y, width, height}], routes: [[{x, y}]], steps: [true], width, height,
//       columns, largest}
// x and y are centres; routes go from the lower side of a node to the upper side of another, in steps or smoothly.
'use strict';

const SPACE = {header: 26, padding: 12, nodes: 14, ranks: 24, boxes: 34, levels: 40, gutter: 110, lane: 6, lanes: 9, narrowest: 150};
const LONGEST_LAID_OUT = 10;  // levels that an edge may span inside its column

function layOutSmall(sizes, edges, space) {
  const nodes = sizes.map((size, i) => ({v: `n${i}`, width: size.width, height: size.height}));
  const seen = new Map();
  for (const [from, to] of edges) seen.set(`${from} ${to}`, {v: `n${from}`, w: `n${to}`});
  const state = {};
  dagre.layout(nodes, [...seen.values()], {nodesep: space.nodes, ranksep: space.ranks, edgesep: 10, rankdir: 'TB'}, state);
  const routes = new Map([...seen].map(([key, edge]) => [key, edge.points]));
  let width = 0, height = 0;
  for (const node of nodes) {
    width = Math.max(width, node.x + node.width / 2);
    height = Math.max(height, node.y + node.height / 2);
  }
  return {nodes, routes, width, height};
}

// One box for each launch and for each node outside of launches, with its nodes placed inside.
function makeBoxes(graph) {
  const boxes = [], boxOf = [];
  const members = new Map();
  graph.nodes.forEach((node, i) => {
    if (node.launch === null) {
      boxOf[i] = boxes.length;
      boxes.push({launch: null, nodes: [i], inside: [{x: node.width / 2, y: node.height / 2}], routes: new Map(),
                  width: node.width, height: node.height});
    } else if (members.has(node.launch)) {
      members.get(node.launch).push(i);
    } else {
      members.set(node.launch, [i]);
    }
  });
  const place = new Map();
  const inner = new Map([...members.keys()].map((launch) => [launch, []]));
  for (const list of members.values()) list.forEach((node, i) => place.set(node, i));
  for (const [from, to] of graph.edges) {
    const launch = graph.nodes[from].launch;
    if (launch !== null && launch === graph.nodes[to].launch) inner.get(launch).push([place.get(from), place.get(to)]);
  }
  const known = new Map();
  for (const [launch, list] of members) {
    const sizes = list.map((i) => ({width: graph.nodes[i].width, height: graph.nodes[i].height}));
    const key = JSON.stringify([sizes, inner.get(launch)]);
    if (!known.has(key)) known.set(key, layOutSmall(sizes, inner.get(launch), {nodes: SPACE.nodes, ranks: SPACE.ranks}));
    const small = known.get(key);
    for (const i of list) boxOf[i] = boxes.length;
    const width = Math.max(small.width + 2 * SPACE.padding, SPACE.narrowest);
    const shift = (point) => ({x: point.x + (width - small.width) / 2, y: point.y + SPACE.padding + SPACE.header});
    boxes.push({
      launch, nodes: list, inside: small.nodes.map(shift),
      routes: new Map([...small.routes].map(([edge, points]) => [edge, points.map(shift)])),
      width, height: small.height + 2 * SPACE.padding + SPACE.header,
    });
  }
  return {boxes, boxOf, place};
}

// By box: the number of boxes on the longest path to it. Boxes that read nothing stand just before their first reader.
function findLevels(count, edges) {
  const out = Array.from({length: count}, () => []), missing = new Array(count).fill(0);
  for (const [from, to] of edges) {
    out[from].push(to);
    ++missing[to];
  }
  const isSource = missing.map((n) => n === 0);
  const level = new Array(count).fill(0), ready = [];
  for (let box = 0; box < count; ++box) if (isSource[box]) ready.push(box);
  while (ready.length > 0) {
    const box = ready.pop();
    for (const reader of out[box]) {
      level[reader] = Math.max(level[reader], level[box] + 1);
      if (--missing[reader] === 0) ready.push(reader);
    }
  }
  for (let box = 0; box < count; ++box) {
    if (isSource[box] && out[box].length > 0) level[box] = Math.min(...out[box].map((reader) => level[reader])) - 1;
  }
  return level;
}

// How many columns give the wanted shape, if levels were as wide as most of them are.
function guessColumns(boxes, level, aspect) {
  const {height, width} = measureLevels(boxes, level);
  const total = height.reduce((a, b) => a + b, 0);
  const usual = width.slice().sort((a, b) => a - b)[Math.floor(0.8 * (width.length - 1))] + SPACE.gutter;
  return Math.sqrt(aspect * total / usual);
}

function measureLevels(boxes, level) {
  const count = Math.max(0, ...level) + 1;
  const height = new Array(count).fill(0), width = new Array(count).fill(0);
  boxes.forEach((box, i) => {
    height[level[i]] = Math.max(height[level[i]], box.height + SPACE.levels);
    width[level[i]] += box.width + SPACE.boxes;
  });
  return {count, height, width};
}

// By level: its column. Columns are about equally high and begin where few edges cross.
function findColumns(boxes, level, edges, wantedColumns) {
  const {count, height} = measureLevels(boxes, level);
  const crossing = new Array(count + 1).fill(0);
  for (const [from, to] of edges) {
    ++crossing[level[from] + 1];
    --crossing[level[to] + 1];
  }
  for (let l = 1; l <= count; ++l) crossing[l] += crossing[l - 1];  // by level: edges into it or past it from above
  const total = height.reduce((a, b) => a + b, 0);
  const columns = Math.max(1, Math.min(count, Math.round(wantedColumns)));
  const upTo = [0];
  for (let l = 0; l < count; ++l) upTo.push(upTo[l] + height[l]);
  const columnOf = new Array(count).fill(0);
  let start = 0;
  for (let column = 1; column < columns; ++column) {
    const wanted = total * column / columns, slack = 0.3 * total / columns;
    let best = null;
    for (let l = start + 1; l < count; ++l) {
      const off = Math.abs(upTo[l] - wanted);
      const price = crossing[l] + 4 * off / slack;
      if (off <= slack && (best === null || price < best.price)) best = {price, l};
    }
    if (best === null) continue;
    start = best.l;
    for (let l = start; l < count; ++l) ++columnOf[l];
  }
  return columnOf;
}

// Lays out the boxes of each column, and the columns side by side.
function placeBoxes(boxes, level, columnOf, edges) {
  const columns = [];
  boxes.forEach((box, i) => {
    box.column = columnOf[level[i]];
    (columns[box.column] ??= []).push(i);
  });
  let x = SPACE.gutter / 2, height = 0, largest = 0;
  const routes = new Map(), rights = [];
  columns.forEach((list, column) => {
    const place = new Map(list.map((box, i) => [box, i]));
    const inside = edges.filter(([from, to]) => place.has(from) && place.has(to) && level[to] - level[from] <= LONGEST_LAID_OUT);
    const small = layOutSmall(list.map((i) => boxes[i]), inside.map(([from, to]) => [place.get(from), place.get(to)]),
                              {nodes: SPACE.boxes, ranks: SPACE.levels});
    list.forEach((box, i) => {
      boxes[box].x = x + small.nodes[i].x;
      boxes[box].y = small.nodes[i].y;
    });
    for (const [from, to] of inside) {
      const points = small.routes.get(`${place.get(from)} ${place.get(to)}`);
      routes.set(`${from} ${to}`, points.map((point) => ({x: x + point.x, y: point.y})));
    }
    rights[column] = x + small.width;
    x += small.width + SPACE.gutter;
    height = Math.max(height, small.height);
    largest = Math.max(largest, list.length);
  });
  return {routes, rights, width: x - SPACE.gutter / 2, height, largest, columns: columns.length};
}

// Down, through the gutter right of the column, over the top of columns in between, and in from above. In steps.
function throughGutters(start, end, from, to, rights, number) {
  const lane = 16 + SPACE.lane * (number % SPACE.lanes);
  const first = rights[from.column] + lane, low = from.y + from.height / 2 + 12, high = to.y - to.height / 2 - 16;
  const points = [start, {x: start.x, y: low}, {x: first, y: low}];
  if (to.column > from.column + 1) {
    const last = rights[to.column - 1] + lane, over = -20 - lane;
    points.push({x: first, y: over}, {x: last, y: over}, {x: last, y: high});
  } else {
    points.push({x: first, y: high});
  }
  return [...points, {x: end.x, y: high}, end];
}

function layOut(graph) {
  const {boxes, boxOf, place} = makeBoxes(graph);
  const between = new Map();
  for (const [from, to] of graph.edges) {
    const a = boxOf[from], b = boxOf[to];
    if (a !== b) between.set(`${a} ${b}`, [a, b]);
  }
  const edges = [...between.values()];
  const level = findLevels(boxes.length, edges);
  const guess = guessColumns(boxes, level, graph.aspect);
  let placed = placeBoxes(boxes, level, findColumns(boxes, level, edges, guess), edges);
  const off = graph.aspect * placed.height / placed.width;
  if (off > 1.15 || off < 0.85) {  // once more, now that the widths are known
    placed = placeBoxes(boxes, level, findColumns(boxes, level, edges, guess * Math.sqrt(off)), edges);
  }
  const nodes = [];
  for (const box of boxes) {
    box.nodes.forEach((node, i) => {
      nodes[node] = {x: box.x - box.width / 2 + box.inside[i].x, y: box.y - box.height / 2 + box.inside[i].y};
    });
  }
  const steps = [];
  const routes = graph.edges.map(([from, to], number) => {
    const a = boxes[boxOf[from]], b = boxes[boxOf[to]];
    const start = {x: nodes[from].x, y: nodes[from].y + graph.nodes[from].height / 2};
    const end = {x: nodes[to].x, y: nodes[to].y - graph.nodes[to].height / 2};
    if (a === b) {
      const points = a.routes.get(`${place.get(from)} ${place.get(to)}`) ?? [];
      return [start, ...points.slice(1, -1).map((p) => ({x: a.x - a.width / 2 + p.x, y: a.y - a.height / 2 + p.y})), end];
    }
    const laidOut = placed.routes.get(`${boxOf[from]} ${boxOf[to]}`);
    steps[number] = laidOut === undefined;
    return laidOut === undefined ? throughGutters(start, end, a, b, placed.rights, number) : [start, ...laidOut, end];
  });
  return {
    nodes, routes, steps, width: placed.width, height: placed.height, columns: placed.columns, largest: placed.largest,
    boxes: boxes.filter((box) => box.launch !== null)
      .map(({launch, x, y, width, height}) => ({launch, x, y, width, height})),
  };
}

self.onmessage = (message) => {
  try {
    self.postMessage({id: message.data.id, layout: layOut(message.data.graph)});
  } catch (error) {
    self.postMessage({id: message.data.id, error: String(error)});
  }
};
