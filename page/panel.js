// What stands beside the picture: the overview of a graph, or all about the region, edge or node that was clicked.
'use strict';

class Panel {
  constructor(content, on) {
    this.content = content;
    this.on = on;  // {select(thing)}
  }

  #show(kind, ...children) {
    this.content.className = kind;
    this.content.replaceChildren(...children.filter((child) => child !== null));
    this.content.parentElement.scrollTop = 0;
  }

  show(model, thing) {
    if (thing?.region) this.#showRegion(thing.region);
    else if (thing?.edge) this.#showEdge(model, thing.edge);
    else if (thing?.node) this.#showNode(model, thing.node);
    else this.#showOverview(model);
  }

  #showOverview(model) {
    const {report} = model, totals = model.totals();
    const calls = model.nodes.filter((node) => node.kind === 'call').length;
    const card = (value, text) => element('div', {class: 'card'}, element('b', {}, value), element('span', {}, text));
    this.#show('overview',
      element('h2', {}, `${report.role} graph`),
      report.fallback_reason ? element('p', {class: 'refusal'}, `Runs with plain PyTorch: ${report.fallback_reason}`) : null,
      ...(report.faults ?? []).map((fault) => element('p', {class: 'refusal'}, fault)),
      element('div', {class: 'cards'},
        card(String(model.launches.length), `launches of ${model.regions.length} fused regions`),
        card(String(model.nodes.filter((node) => node.launch !== null).length), 'nodes inside regions'),
        card(String(calls), 'operators run by PyTorch'),
        card(ratioText(totals.bytesBefore, totals.bytesAfter) || '–', 'fewer bytes moved by what is fused')),
      section('Time and bytes, before and after fusing',
        element('p', {class: 'note'}, 'Predicted, of all launches of a region. Before: each of its operators as a region of its own. What PyTorch runs is in neither.'),
        this.#regionTable(model, totals)),
      section('Why the rest is not fused', this.#reasonTable(model)),
      section('This graph', facts([
        ['Hardware profile', report.target ?? ''], ['Threads', report.threads ? String(report.threads) : ''],
        ['Compile time', report.milliseconds > 0 ? `${report.milliseconds.toFixed(0)} ms` : '']]),
        report.stages?.length > 0 ? table(['Stage', 'ms'], report.stages.map((stage) =>
          ({cells: [stage.name, {sort: stage.milliseconds, text: stage.milliseconds.toFixed(1)}]}))) : null));
  }

  #regionTable(model, totals) {
    const measured = model.regions.some((region) => measuredUs(region) !== null);
    const rows = [...model.regions].map((region) => {
      const n = region.launches.length, took = measuredUs(region);
      return {region, cells: [
        element('span', {class: 'name'}, swatch(region.hue), region.name), {sort: n, text: String(n)},
        {sort: region.apart_us, text: timeText(n * region.apart_us)}, {sort: region.predicted_us, text: timeText(n * region.predicted_us)},
        ...(measured ? [{sort: took ?? 0, text: took === null ? '–' : timeText(n * took)}] : []),
        {sort: region.bytes, text: bytesText(n * (region.bytes + region.bytes_saved))}, {sort: region.bytes, text: bytesText(n * region.bytes)},
      ]};
    }).sort((a, b) => b.region.launches.length * b.region.predicted_us - a.region.launches.length * a.region.predicted_us);
    const titles = ['Region', 'Uses', 'Before', 'After', ...(measured ? ['Measured'] : []), 'Bytes before', 'After'];
    const total = ['All', String(model.launches.length), timeText(totals.apartUs), timeText(totals.fusedUs), ...(measured ? [''] : []),
                   bytesText(totals.bytesBefore), bytesText(totals.bytesAfter)];
    return table(titles, rows, {onrow: (row) => this.on.select({region: row.region}, true), total});
  }

  #reasonTable(model) {
    const rows = model.reasonCounts().map(([reason, count]) => ({cells: [
      element('span', {class: 'name reason'}, element('i', {class: 'line', hue: REASONS[reason]?.hue ?? 0}), reason),
      REASONS[reason]?.says ?? '', {sort: count, text: String(count)}]}));
    return rows.length > 0 ? table(['Reason', '', 'Edges'], rows) : element('p', {}, 'Every edge lies inside a region.');
  }

  #showRegion(region) {
    const took = measuredUs(region), n = region.launches.length;
    this.#show('region',
      element('h2', {}, swatch(region.hue), region.name),
      element('p', {class: 'note'}, `Launched ${n} time${n === 1 ? '' : 's'} · torch.ops.tilefuse.${region.operator}`),
      region.refusal ? element('p', {class: 'refusal'}, `Runs with PyTorch's operators: ${region.refusal}`) : null,
      table(['One launch', 'Before', 'After', ''], [
        {cells: ['Time, predicted', {sort: 0, text: timeText(region.apart_us)}, {sort: 0, text: timeText(region.predicted_us)},
                 {sort: 0, text: ratioText(region.apart_us, region.predicted_us)}]},
        ...(took === null ? [] : [{cells: ['Time, measured', {sort: 0, text: ''}, {sort: 0, text: timeText(took)}, {sort: 0, text: ''}]}]),
        {cells: ['Bytes moved', {sort: 0, text: bytesText(region.bytes + region.bytes_saved)}, {sort: 0, text: bytesText(region.bytes)},
                 {sort: 0, text: ratioText(region.bytes + region.bytes_saved, region.bytes)}]}]),
      section('Operators', listOf(region.ops)),
      region.user_source.length > 0 ? section('From your source', listOf(region.user_source, 'source')) : null,
      section('Reads and writes', facts([['Inputs', region.inputs.map((name) => `%${name}`).join(', ')],
                                         ['Outputs', region.outputs.map((name) => `%${name}`).join(', ')]])),
      region.schedule ? section('Schedule', code(region.schedule, 'text')) : null,
      region.cost.length > 0 ? section('Cost terms', this.#costTable(region)) : null,
      region.tile_graph ? section('Tile graph', code(region.tile_graph, 'text')) : null,
      region.source ? section('Generated C++', code(region.source, 'cpp')) : null);
  }

  #costTable(region) {
    const largest = Math.max(...region.cost.map((term) => Math.abs(term.us)), 1e-9);
    return table(['Term', 'Time', ''], region.cost.map((term) => ({cells: [
      term.name, {sort: term.us, text: `${term.us < 0 ? '−' : ''}${timeText(Math.abs(term.us))}`},
      element('span', {class: 'bar', style: `width: ${Math.round(100 * Math.abs(term.us) / largest)}px`})]})));
  }

  #showEdge(model, edge) {
    const from = model.nodes[edge.from], to = model.nodes[edge.to];
    const refusal = edge.refusal;
    const verdict = edge.kind === 'inside' ? 'Fused' : edge.kind === 'input' ? 'Read from memory' : 'Not fused';
    const isWithinOperator = from.origin === to.origin && from.source === to.source;
    const why = edge.kind === 'inside'
      ? `Both ends are in region ${from.region.name}: the value stays on chip` +
        (isWithinOperator ? `, as it may within ${from.origin} alone. ` : `, and ${bytesText(2 * edge.bytes)} are neither written nor read. `) +
        `The region is predicted to take ${timeText(from.region.predicted_us)}, its operators apart ${timeText(from.region.apart_us)}.`
      : edge.kind === 'input' ? 'The value is an input of the graph.'
        : refusal ? `${refusal.text[0].toUpperCase()}${refusal.text.slice(1)}.` : 'The value is written to memory and read again.';
    this.#show('edge',
      element('h2', {}, `%${edge.value} → %${to.name}`),
      element('p', {class: `verdict ${edge.kind}`}, verdict, refusal ? element('code', {}, refusal.reason) : null),
      element('p', {class: 'why'}, why),
      refusal ? element('p', {class: 'note'}, REASONS[refusal.reason]?.says ?? '') : null,
      facts([['Value', `%${edge.value}${from.type ? ` : ${from.type}` : ''}`], ['Bytes', bytesText(edge.bytes)],
             ['From', this.#nodeLink(from)], ['To', this.#nodeLink(to)],
             ['Region', from.region && edge.kind === 'inside' ? this.#regionLink(from.region) : null]]));
  }

  #showNode(model, node) {
    const edges = (list, end) => element('ul', {class: 'lines'}, ...list.map((edge) => element('li', {},
      this.#nodeLink(model.nodes[edge[end]]), ' ', link(edge.kind === 'unfused' ? edge.refusal?.reason ?? 'not fused' : edge.kind === 'inside' ? 'fused' : 'input',
        () => this.on.select({edge}, true), 'why?'))));
    const runs = node.isInput ? `${node.kind} of the graph` : node.kind === 'call' ? 'PyTorch' : null;
    this.#show('node',
      element('h2', {}, `%${node.name}`),
      facts([['Operator', node.isInput ? '' : node.op], ['Expanded from', node.isInput ? '' : node.origin], ['Type', node.type],
             ['Source', node.source === '' ? '' : element('span', {class: 'source'}, node.source)],
             ['Region', node.region ? this.#regionLink(node.region) : null], ['Run by', runs]]),
      node.reads.length > 0 ? section('Reads', edges(node.reads, 'from')) : null,
      node.readBy.length > 0 ? section('Read by', edges(node.readBy, 'to')) : null);
  }

  #nodeLink(node) {
    return link(`%${node.name}${node.isInput ? '' : ` · ${node.label}`}`, () => this.on.select({node}, true));
  }

  #regionLink(region) {
    return link(element('span', {class: 'name'}, swatch(region.hue), region.name), () => this.on.select({region}, true));
  }
}

// Microseconds of the schedule that was taken, where the option tune has measured it.
function measuredUs(region) {
  return region.tuned === null ? null : region.tuned.measured_us[region.tuned.chosen] ?? null;
}
