// The pressure grid: a press on a cell opens its bucket. For the keyboard it is one stop: arrows lead a cursor from cell to cell, what
// is there is told, and Enter opens it.
(() => {
  'use strict';
  let at = 0; // the cell that the cursor is on; a bucket keeps its place while the grid is drawn again
  let telling;

  function measure(cells) {
    const drawing = cells.querySelector('svg').dataset;
    const size = Number(drawing.size);
    return { size, columns: Math.floor(Number(drawing.width) / size), count: Number(drawing.cells), width: Number(drawing.width) };
  }

  // address of a cell, with the filter of the page.
  function address(cells, cell, more) {
    const url = new URL(cells.dataset.at, location.href);
    url.search = location.search;
    for (const [name, value] of Object.entries({ cell, ...more })) url.searchParams.set(name, value);
    return url;
  }

  async function tell(cells) {
    const cell = at;
    let text = 'The admin does not answer.';
    try {
      const answer = await fetch(address(cells, cell, { tell: 1 }));
      if (answer.ok) text = await answer.text();
    } catch { /* it is away, as the page says elsewhere, too */ }
    if (cell === at) document.getElementById('grid-cell').textContent = text;
  }

  function move(cells, to) {
    const { size, columns, count } = measure(cells);
    at = Math.max(0, Math.min(to, count - 1));
    const cursor = cells.querySelector('.cursor');
    cursor.setAttribute('x', at % columns * size);
    cursor.setAttribute('y', Math.floor(at / columns) * size);
    clearTimeout(telling);
    telling = setTimeout(tell, 150, cells); // not each of those that a held key passes
  }

  document.addEventListener('click', (event) => {
    const cells = event.target.closest('.cells');
    if (!cells) return;
    const { size, columns, width } = measure(cells);
    const box = cells.querySelector('svg').getBoundingClientRect();
    const scale = width / box.width;
    location.assign(address(cells, Math.floor((event.clientY - box.top) * scale / size) * columns + Math.floor((event.clientX - box.left) * scale / size)));
  });
  // The focus comes by the keyboard or, when the grid was fetched again, by htmx, which keeps it.
  document.addEventListener('focusin', (event) => {
    if (event.target.matches('.cells')) move(event.target, at);
  });
  document.addEventListener('keydown', (event) => {
    const cells = event.target.closest('.cells');
    if (!cells || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'Enter') return location.assign(address(cells, at));
    const { columns } = measure(cells);
    const row = at - at % columns;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: row, End: row + columns - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to >= 0) move(cells, to);
  });
})();
