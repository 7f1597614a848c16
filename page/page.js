// Puts the page together: the report, the picture, the panel, the search field and the legend.
'use strict';

const FEW_INPUTS = 24;  // more are drawn only when asked for: a model's weights are inputs, too

class Page {
  constructor(report) {
    this.models = report.graphs.map((graph) => new GraphModel(graph));
    const find = (id) => document.getElementById(id);
    this.parts = Object.fromEntries(['what', 'graphs', 'query', 'found', 'inputs', 'show-inputs', 'fit', 'busy', 'legend', 'back']
      .map((id) => [id, find(id)]));
    const select = (thing, reveal = false) => this.select(thing, reveal);
    this.picture = new Picture(document.querySelector('#picture canvas'), {
      select, hover: (thing) => { this.picture.canvas.title = titleOf(thing); },
    });
    this.panel = new Panel(find('content'), {select});
    this.worker = new Worker(URL.createObjectURL(new Blob([find('layout').textContent], {type: 'text/javascript'})));
    this.worker.onmessage = ({data}) => this.#laidOut(data);
    this.worker.onerror = (event) => this.#fail(event.message);
    this.asked = 0;
    this.#listen();
    this.#fillGraphs();
    if (this.models.length > 0) this.open(0);
    else this.parts.busy.textContent = 'The report has no graph.';
  }

  #listen() {
    const {graphs, query, inputs, fit, back} = this.parts;
    graphs.addEventListener('change', () => this.open(Number(graphs.value)));
    inputs.addEventListener('change', () => this.#layOut());
    fit.addEventListener('click', () => this.picture.fit(true));
    back.addEventListener('click', () => this.select(null));
    query.addEventListener('input', () => this.search(query.value));
    query.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#nextMatch();
    });
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        query.value = '';
        this.search('');
        this.select(null);
      } else if (event.target !== query && event.key === '/') {
        event.preventDefault();
        query.focus();
      } else if (event.target !== query && event.key === 'f' && !event.ctrlKey && !event.metaKey) {
        this.picture.fit(true);
      }
    });
  }

  #fillGraphs() {
    const {graphs} = this.parts;
    graphs.hidden = this.models.length < 2;
    graphs.replaceChildren(...this.models.map(({report, nodes}, i) =>
      element('option', {value: i}, `${i + 1}: ${report.role}, ${nodes.filter((node) => !node.isInput).length} nodes`)));
  }

  open(number) {
    this.model = this.models[number];
    const {report, nodes} = this.model, {what, inputs} = this.parts;
    what.textContent = [document.title, report.name, report.target, report.threads ? `${report.threads} thread${report.threads === 1 ? '' : 's'}` : null]
      .filter((text) => text).join(' · ');
    const count = nodes.filter((node) => node.isInput).length;
    inputs.checked = count <= FEW_INPUTS;
    this.parts['show-inputs'].hidden = count === 0;
    inputs.nextElementSibling.textContent = `${count} inputs`;
    this.#fillLegend();
    this.select(null);
    this.search(this.parts.query.value);
    this.#layOut();
  }

  #layOut() {
    const model = this.model;
    const nodes = model.nodes.filter((node) => !node.isInput || (this.parts.inputs.checked && node.readBy.length > 0));
    const place = new Map(nodes.map((node, i) => [node.index, i]));
    const edges = model.edges.filter((edge) => place.has(edge.from) && place.has(edge.to));
    const {clientWidth, clientHeight} = this.picture.canvas;
    this.drawn = {nodes, edges};
    this.parts.busy.hidden = false;
    this.worker.postMessage({id: ++this.asked, graph: {
      nodes: nodes.map(({width, height, launch}) => ({width, height, launch})),
      edges: edges.map((edge) => [place.get(edge.from), place.get(edge.to)]),
      aspect: clientHeight > 0 ? clientWidth / clientHeight : 1.5,
    }});
  }

  #laidOut(answer) {
    if (answer.id !== this.asked) return;
    if (answer.error) return this.#fail(answer.error);
    this.parts.busy.hidden = true;
    this.picture.show(this.model, answer.layout, this.drawn);
    this.picture.matches = this.matches;
    this.ready = true;
  }

  #fail(text) {
    this.parts.busy.textContent = `The graph cannot be drawn: ${text}`;
    console.error(text);
  }

  select(thing, reveal = false) {
    this.selected = thing;
    this.picture.selected = thing;
    this.panel.show(this.model, thing);
    this.parts.back.hidden = thing === null;
    for (const entry of this.parts.legend.querySelectorAll('[data-region]')) {
      entry.classList.toggle('chosen', thing?.region !== undefined && Number(entry.dataset.region) === thing.region.index);
    }
    if (reveal && thing !== null) this.picture.reveal(thing);
    this.picture.redraw();
  }

  search(words) {
    const found = this.model.search(words);
    this.found = found;
    this.next = 0;
    this.matches = words.trim() === '' ? null : new Set(found);
    this.picture.matches = this.matches;
    this.parts.found.textContent = this.matches === null ? '' : `${found.length} found`;
    this.picture.redraw();
  }

  #nextMatch() {
    if (this.found.length === 0) return;
    const number = this.next++ % this.found.length;
    this.parts.found.textContent = `${number + 1} of ${this.found.length}`;
    this.select({node: this.found[number]}, true);
  }

  #fillLegend() {
    const model = this.model, counts = model.reasonCounts();
    const region = (r) => element('button', {type: 'button', 'data-region': r.index, onclick: () => this.select({region: r}, true), title: r.ops.join(', ')},
      swatch(r.hue), element('span', {}, r.name), element('small', {}, r.launches.length > 1 ? `×${r.launches.length}` : ''));
    const line = (attributes, text, count) => element('p', {}, element('i', {class: 'line', ...attributes}), element('span', {}, text), element('small', {}, count));
    this.parts.legend.replaceChildren(
      element('div', {}, element('b', {}, 'Regions'), ...model.regions.map(region),
        element('p', {}, element('i', {class: 'swatch call'}), element('span', {}, 'run by PyTorch'))),
      element('div', {}, element('b', {}, 'Edges'), line({class: 'line inside'}, 'fused', ''),
        ...counts.map(([reason, count]) => line({hue: REASONS[reason]?.hue ?? 0, title: REASONS[reason]?.says ?? ''}, reason, String(count)))));
  }
}

function titleOf(thing) {
  if (thing?.node) return `%${thing.node.name}: ${thing.node.op} ${thing.node.type}`;
  if (thing?.edge) return `%${thing.edge.value}: ${thing.edge.refusal?.reason ?? (thing.edge.kind === 'inside' ? 'fused' : 'input')}`;
  return thing?.region ? thing.region.name : '';
}

try {
  window.page = new Page(JSON.parse(document.getElementById('report').textContent));
} catch (error) {
  document.getElementById('busy').textContent = `The report cannot be shown: ${error}`;
  throw error;
}
