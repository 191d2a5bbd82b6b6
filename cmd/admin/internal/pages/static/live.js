// What keeps a page live: one stream of events per tab. "patch" changes texts and harmless attributes of elements by id,
// "part" tells versions of parts of the page, which are fetched again where another one is shown, "stale" says that the numbers
// stand still, and why, "now" what time it is.
(() => {
  'use strict';
  const allowed = /^(class|d|x|y|x1|x2|y1|y2|cx|cy|r|width|height|points|transform|viewBox|hidden|title|value|max|datetime|aria-[a-z]+|data-[a-z-]+)$/;
  const stream = document.getElementById('stream');

  // The server's clock says when something opens. That of the browser may be wrong by hours.
  let ahead = 0;
  const now = () => Date.now() + ahead;
  window.spoutNow = now;
  function clock(text) {
    const at = Date.parse(text);
    if (at) ahead = at - Date.now();
  }
  clock(document.getElementById('main')?.dataset.now);

  // say shows whether what the page shows is live.
  function say(state, text, why) {
    if (!stream || stream.dataset.state === state && stream.textContent === text && stream.title === (why || '')) return;
    stream.dataset.state = state;
    stream.textContent = text;
    stream.title = why || '';
    document.body.classList.toggle('stale', state === 'stale');
    standsStill(state === 'stale' && why);
    // The strip says the same, also while nobody is there to send it.
    const cell = document.getElementById('strip-live');
    if (!cell) return;
    cell.className = 'cell' + (state === 'stale' ? ' bad' : '');
    document.getElementById('strip-live-text').textContent = text;
  }

  // standsStill tells it in words, and why, which may count seconds: that is not read out again and again.
  function standsStill(why) {
    const told = document.querySelector('#notices .still');
    if (!why) return told?.remove();
    const notice = told || document.createElement('p');
    const reason = notice.lastElementChild || document.createElement('span');
    reason.textContent = why[0].toUpperCase() + why.slice(1);
    if (told) return;
    notice.className = 'notice bad still';
    reason.setAttribute('aria-hidden', 'true');
    notice.append('This page stands still, and goes on by itself. ', reason);
    document.getElementById('notices').append(notice);
  }

  // What was told of each element by now, also of those that a part will bring which is being fetched: only what changes is told
  // again, so what is drawn meanwhile takes it over, however old or new it is.
  const told = new Map();
  const toldMost = 5000;

  function patch(changes) {
    for (const [id, attributes] of Object.entries(changes)) {
      told.set(id, { ...told.get(id), ...attributes });
      apply(id, attributes);
    }
    if (told.size <= toldMost || fetching) return;
    for (const id of told.keys()) if (!document.getElementById(id)) told.delete(id);
  }

  function apply(id, attributes, within = document) {
    const element = document.getElementById(id);
    if (!element || !within.contains(element)) return;
    for (const [name, value] of Object.entries(attributes)) {
      if (name === '') { if (element.textContent !== value) element.textContent = value; }
      else if (name === 'hidden') element.toggleAttribute('hidden', value !== '');
      else if (allowed.test(name)) element.setAttribute(name, value);
    }
  }

  // stands has what is drawn say what was told.
  function stands(within) {
    for (const [id, attributes] of told) apply(id, attributes, within);
    countdown();
  }

  // The parts of the page: the version that is shown and the one that was told last. While they differ the part is fetched, at once
  // when another was told and then now and then: an answer may fail, or be of a moment in between.
  let parts = new Map();
  let fetching = false;
  const tryAgain = 2500; // ms

  function tell(versions) {
    for (const [name, version] of Object.entries(versions)) {
      const part = parts.get(name) || { asked: 0 };
      parts.set(name, Object.assign(part, { told: version, fresh: true }));
    }
    fetchParts();
  }

  // fetchParts fetches one part after another, the one first that waits longest.
  async function fetchParts() {
    if (fetching) return;
    fetching = true;
    try {
      for (let name; (name = nextPart()); ) await fetchPart(name, parts.get(name));
    } finally {
      fetching = false;
    }
  }

  function nextPart() {
    const due = ([name, part]) => source && part.shown !== part.told && (part.fresh || performance.now() - part.asked > tryAgain) && !busy(element(name));
    return [...parts].filter(due).sort((a, b) => a[1].asked - b[1].asked)[0]?.[0];
  }

  const element = (name) => document.getElementById('part-' + name);

  // What somebody types, ticks or presses in a part is not taken from them, nor what they aim at: it is fetched when they are done.
  const typed = 'input:not([type=checkbox]), select, textarea';
  let pressed, aimed = 0;
  const busy = (part) => part && (part.contains(document.activeElement) && document.activeElement.matches(typed)
    || part.querySelector('input[type=checkbox]:checked') || pressed && part.contains(pressed)
    || performance.now() - aimed < 800 && part.querySelector('button:hover'));
  addEventListener('pointerdown', (event) => { pressed = event.target; }, true);
  for (const name of ['pointerup', 'pointercancel']) {
    addEventListener(name, () => setTimeout(() => { pressed = undefined; }, 200), true); // the click comes after it
  }
  addEventListener('pointermove', () => { aimed = performance.now(); }, { capture: true, passive: true });
  for (const name of ['focusout', 'change']) document.addEventListener(name, () => setTimeout(fetchParts));

  async function fetchPart(name, part) {
    const page = parts, version = part.told;
    Object.assign(part, { asked: performance.now(), fresh: false });
    const was = element(name);
    if (!was) {
      part.shown = version; // the page does not have it
      return;
    }
    const url = new URL(view.dataset.page || location.href, location.href);
    url.searchParams.set('part', name);
    const drawn = document.createElement('template');
    let shown;
    try {
      const answer = await fetch(url, { headers: { 'HX-Request': 'true', Accept: 'text/html' } });
      if (!answer.ok) return; // the stream tells what is the matter
      shown = answer.headers.get('Spout-Version') || version;
      drawn.innerHTML = await answer.text();
    } catch {
      return;
    }
    const is = drawn.content.querySelector('#part-' + CSS.escape(name));
    if (page !== parts || !is || !was.isConnected) return;
    if (busy(was)) {
      part.fresh = true;
      return;
    }
    part.shown = shown;
    const focused = was.contains(document.activeElement) && document.activeElement;
    takeOver(was, is);
    was.replaceWith(is);
    htmx.process(is);
    for (const [i, box] of [...is.querySelectorAll('.scroll')].entries()) box.scrollLeft = was.scrolled[i] || 0;
    refocus(focused, is);
    stands(is);
  }

  // takeOver leaves to people what they wrote and unfolded in a part that is drawn again.
  function takeOver(was, is) {
    for (const field of was.querySelectorAll(typed)) {
      const same = field.id && is.querySelector('#' + CSS.escape(field.id));
      if (same && (field.matches('select') || field.value !== field.defaultValue)) same.value = field.value;
    }
    const folds = [...is.querySelectorAll('details')];
    for (const fold of was.querySelectorAll('details')) {
      const same = folds.find((other) => other.firstElementChild.textContent === fold.firstElementChild.textContent);
      if (same) folds.splice(folds.indexOf(same), 1)[0].open = fold.open;
    }
    was.scrolled = [...was.querySelectorAll('.scroll')].map((box) => box.scrollLeft);
  }

  // refocus keeps the focus of the keyboard where it was, if that is still there: only on what does exactly the same.
  function refocus(was, part) {
    if (!was || was.isConnected || !part) return;
    const does = (e) => (e.form ? e.form.getAttribute('action') + '?' + new URLSearchParams(new FormData(e.form)) : e.getAttribute('href'));
    for (const e of part.querySelectorAll(was.localName)) {
      if ((was.id ? e.id === was.id : e.textContent === was.textContent) && does(e) === does(was)) return e.focus({ preventScroll: true });
    }
  }

  // The element of the page that names the stream, what it names, and the stream.
  let view, address, source, last, later;
  function connect() {
    if (source || document.hidden) return;
    clearTimeout(later);
    const main = document.querySelector('[data-live]');
    if (main !== view || main?.dataset.live !== address) begin(main);
    if (!view) return say('still', '');
    if (stream.dataset.state === 'still') say('wait', 'connecting');
    // A stream begins with the parts that are not as they are shown by now, whatever was drawn at first, and with all that it patches.
    const url = new URL(address, location.href);
    url.searchParams.delete('drawn');
    for (const [name, part] of parts) url.searchParams.append('drawn', name + '.' + (part.shown || ''));
    told.clear();
    source = new EventSource(url);
    last = performance.now();
    const heard = (act) => (event) => {
      last = performance.now();
      act(JSON.parse(event.data));
    };
    source.addEventListener('now', heard(clock));
    source.addEventListener('patch', heard((changes) => { say('live', 'live'); patch(changes); }));
    source.addEventListener('part', heard(tell));
    source.addEventListener('stale', heard((why) => say('stale', 'stale', why)));
    source.onerror = () => {
      say('stale', 'stale', 'the connection to the admin is lost; it is tried again');
      if (source.readyState === EventSource.CLOSED) return refused();
      disconnect();
      later = setTimeout(connect, 2000); // not by the browser, which would ask for what was drawn at first
    };
  }

  function disconnect() {
    clearTimeout(later);
    if (source) source.close();
    source = undefined;
  }

  // begin looks at a page, or at none: which parts it has, and where it can be read again.
  function begin(main) {
    view = main || undefined;
    address = main?.dataset.live;
    parts = new Map();
    if (!main) return;
    for (const drawn of new URL(address, location.href).searchParams.getAll('drawn')) {
      const [name, version] = drawn.split('.');
      parts.set(name, { shown: version, told: version, asked: 0 });
    }
    // The answer to a form is at the address of the form, where nothing can be read.
    const page = main.dataset.page && new URL(main.dataset.page, location.href);
    if (page && page.pathname !== location.pathname) history.replaceState(null, '', page);
  }

  // A page that is drawn anew, as by a form on it, has a stream of its own: that begins with all that changed since the page was drawn.
  // Where only a part was, it may be older than what was told, or newer: by then the stream has told what is so.
  document.addEventListener('htmx:after:swap', () => {
    const main = document.querySelector('[data-live]');
    clock(document.getElementById('main')?.dataset.now);
    countdown();
    if (main === (view || null) && main?.dataset.live === address) {
      setTimeout(() => stands(document), 600);
      return;
    }
    disconnect();
    connect();
  });

  // refused asks for the page why there is no stream: a browser does not try again what was answered with an error.
  async function refused() {
    disconnect();
    let gone = false, nothing = false;
    try {
      const answer = await fetch(view.dataset.page || location.pathname + location.search, { method: 'HEAD', redirect: 'manual', headers: { Accept: 'text/html' } });
      gone = answer.type === 'opaqueredirect' || answer.status === 401;
      nothing = answer.status === 404;
    } catch { /* the admin is away */ }
    if (gone) return loggedOut();
    if (nothing) say('stale', 'stale', 'what it shows is not there any more');
    later = setTimeout(connect, 3000);
  }

  // loggedOut says so, and leads to the login and back. It does not go there by itself: somebody may be typing.
  function loggedOut() {
    say('stale', 'logged out');
    const notice = document.createElement('p');
    const link = document.createElement('a');
    notice.className = 'notice bad';
    link.className = 'button';
    link.href = location.pathname + location.search;
    link.textContent = 'Log in again';
    notice.append('You are not logged in any more, so this page stands still. ', link, ' to go on here.');
    document.getElementById('notices').replaceChildren(notice);
  }

  // A tab that nobody sees costs nothing.
  document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : connect()));
  addEventListener('pagehide', disconnect);
  addEventListener('pageshow', () => {
    connect();
    // Who goes back finds the list that the address names. So does the form, whatever was typed into it before it was sent.
    for (const form of document.querySelectorAll('form[method=get]')) form.reset();
  });
  setInterval(() => {
    const silent = performance.now() - last;
    if (source && silent > 5000) say('stale', 'stale', 'nothing was heard for ' + Math.round(silent / 1000) + ' s');
    fetchParts();
    countdown();
  }, 500);

  // countdown runs the times that an element of <time data-until="RFC 3339"> names down to nothing.
  function countdown() {
    for (const element of document.querySelectorAll('[data-until]')) {
      if (!element.dataset.until) continue;
      const left = Math.max(0, Date.parse(element.dataset.until) - now());
      const s = Math.ceil(left / 1000);
      const m = Math.floor(s / 60), h = Math.floor(m / 60);
      element.textContent = s < 60 ? s + 's' : m < 60 ? m + 'm ' + s % 60 + 's' : h < 24 ? h + 'h ' + m % 60 + 'm' : Math.floor(h / 24) + 'd ' + h % 24 + 'h';
    }
  }

  countdown();
})();
