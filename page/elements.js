// Pieces of the panels. Text from the report becomes text nodes and attributes, never markup.
'use strict';

// element('td', {class: 'number'}, 'text', anotherElement, null)
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name === 'hue') made.style.setProperty('--hue', value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function timeText(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  return us >= 1000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(us >= 100 ? 0 : us >= 10 ? 1 : 2)} µs`;
}

function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB'];
  let unit = 0;
  for (; bytes >= 1000 && unit < 3; ++unit) bytes /= 1000;
  return `${unit === 0 || bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[unit]}`;
}

function ratioText(before, after) {
  return after > 0 ? `${(before / after).toFixed(before / after >= 10 ? 0 : 1)}×` : '';
}

function section(title, ...children) {
  return element('section', {}, element('h3', {}, title), ...children);
}

function listOf(texts, kind = '') {
  return element('ul', {class: `lines ${kind}`}, ...texts.map((text) => element('li', {}, text)));
}

function swatch(hue) {
  return element('i', {class: 'swatch', hue});
}

function link(text, go, title = '') {
  return element('button', {type: 'button', class: 'link', title, onclick: go}, text);
}

// Facts as two columns; a fact without a value is left out.
function facts(rows) {
  return element('dl', {}, ...rows.filter(([, value]) => value !== null && value !== '')
    .flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
}

// rows: lists of cells; a cell is a text, an element, or a number with its text: {sort, text}
function table(titles, rows, options = {}) {
  const isNumber = (cell) => typeof cell === 'object' && cell !== null && 'sort' in cell;
  const body = element('tbody', {}, ...rows.map((row) => element('tr', options.onrow ? {onclick: () => options.onrow(row)} : {},
    ...row.cells.map((cell) => isNumber(cell) ? element('td', {class: 'number'}, cell.text) : element('td', {}, cell)))));
  const total = options.total ? element('tfoot', {}, element('tr', {},
    ...options.total.map((cell, i) => element(i === 0 ? 'th' : 'td', i === 0 ? {} : {class: 'number'}, cell)))) : null;
  const head = element('thead', {}, element('tr', {}, ...titles.map((title, i) => element('th', rows.length > 0 && isNumber(rows[0].cells[i]) ? {class: 'number'} : {}, title))));
  return element('table', {class: options.onrow ? 'rows' : ''}, head, body, total);
}

const CODE = {
  cpp: /(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(?<string>"(?:[^"\\\n]|\\.)*")|(?<directive>^[ \t]*#[^\n]*)|(?<keyword>\b(?:auto|bool|char|const|constexpr|continue|double|else|extern|false|float|for|if|int|int64_t|int32_t|uint8_t|inline|long|return|size_t|static|struct|template|true|typename|using|void|while|__restrict)\b)|(?<number>\b\d[\w.]*)/gm,
  text: /(?<name>%[\w.]+)|(?<number>\b\d[\w.]*)/g,
};

// Source text with its words coloured.
function code(text, language) {
  const pre = element('pre', {class: 'code', tabindex: '0'});
  let at = 0;
  for (const found of text.matchAll(CODE[language])) {
    const kind = Object.entries(found.groups).find(([, word]) => word !== undefined)[0];
    pre.append(text.slice(at, found.index), element('span', {class: kind}, found[0]));
    at = found.index + found[0].length;
  }
  pre.append(text.slice(at));
  return pre;
}
