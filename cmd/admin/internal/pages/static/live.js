// What keeps a page live: one stream of events per tab. "patch" changes texts and harmless attributes of elements by id,
// "part" fetches a part of the page again, "stale" says that the numbers stand still, and why.
(() => {
  'use strict';
  const allowed = /^(class|d|x|y|x1|x2|y1|y2|cx|cy|r|width|height|points|transform|viewBox|hidden|title|value|max|datetime|aria-[a-z]+|data-[a-z-]+)$/;
  const stream = document.getElementById('stream');

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

  // What was told of each element by now: only what changes is told again, so a part that is fetched meanwhile takes it over.
  const told = new Map();

  function patch(changes) {
    for (const [id, attributes] of Object.entries(changes)) {
      const element = document.getElementById(id);
      if (!element) continue;
      told.set(id, { ...told.get(id), ...attributes });
      for (const [name, value] of Object.entries(attributes)) {
        if (name === '') element.textContent = value;
        else if (name === 'hidden') element.toggleAttribute('hidden', value !== '');
        else if (allowed.test(name)) element.setAttribute(name, value);
      }
    }
  }

  // again fetches a part of the page and puts it in the place of what is there. One after another: an older answer must not
  // take the place of a newer one, and htmx drops what waits behind two requests.
  let fetching = Promise.resolve();
  function again(part) {
    fetching = fetching.catch(() => {}).then(() => fetchPart(part));
  }

  // What somebody types or ticks in a part is not taken from them: it is fetched when they are done.
  const owed = new Set();
  const busy = (element) => element.contains(document.activeElement) && document.activeElement.matches('input:not([type=checkbox]), select, textarea')
    || element.querySelector('input[type=checkbox]:checked');
  for (const name of ['focusout', 'change']) {
    document.addEventListener(name, () => setTimeout(() => {
      for (const part of owed) again(part);
    }));
  }

  async function fetchPart(part) {
    owed.delete(part);
    const page = view;
    const element = document.getElementById('part-' + part);
    if (!element) return;
    if (busy(element)) return owed.add(part);
    const url = new URL(location.href);
    url.searchParams.set('part', part);
    const focused = element.contains(document.activeElement) && document.activeElement;
    await htmx.ajax('GET', url.pathname + url.search, { target: '#part-' + part, swap: 'outerHTML' });
    const drawn = document.getElementById('part-' + part);
    refocus(focused, drawn);
    for (const id of told.keys()) {
      const now = document.getElementById(id);
      if (!now) told.delete(id);
      else if (drawn?.contains(now)) patch({ [id]: told.get(id) });
    }
    countdown();
    if (page !== view) again(part); // the page was drawn anew meanwhile, maybe later than this
  }

  // refocus keeps the focus of the keyboard where it was, if that is still there: only on what does exactly the same.
  function refocus(was, part) {
    if (!was || was.isConnected || !part) return;
    const does = (e) => (e.form ? e.form.getAttribute('action') + '?' + new URLSearchParams(new FormData(e.form)) : e.getAttribute('href'));
    for (const e of part.querySelectorAll(was.localName)) {
      if (e.textContent === was.textContent && does(e) === does(was)) return e.focus({ preventScroll: true });
    }
  }

  // The element of the page that names the stream, and the stream.
  let view, source, address, last, later;
  function connect() {
    if (source || document.hidden) return;
    view = document.querySelector('[data-live]');
    if (!view) return say('still', '');
    clearTimeout(later);
    if (stream.dataset.state === 'still') say('wait', 'connecting');
    address = view.dataset.live;
    source = new EventSource(address);
    last = Date.now();
    const heard = (act) => (event) => {
      last = Date.now();
      act(JSON.parse(event.data));
    };
    source.addEventListener('patch', heard((changes) => { say('live', 'live'); patch(changes); }));
    source.addEventListener('part', heard(again));
    source.addEventListener('stale', heard((why) => say('stale', 'stale', why)));
    source.onerror = () => {
      say('stale', 'stale', 'the connection to the admin is lost; it is tried again');
      if (source.readyState === EventSource.CLOSED) refused();
    };
  }
  function disconnect() {
    clearTimeout(later);
    if (source) source.close();
    source = view = address = undefined;
  }

  // A page that is drawn anew, as by a form on it, has a stream of its own: that begins with all that changed since the page was drawn.
  document.addEventListener('htmx:after:swap', () => {
    const now = document.querySelector('[data-live]');
    if (now === view && now?.dataset.live === address) return;
    disconnect();
    told.clear();
    owed.clear();
    connect();
  });

  // refused asks for the page why there is no stream: a browser does not try again what was answered with an error.
  async function refused() {
    disconnect();
    let gone = false;
    try {
      const answer = await fetch(location.pathname + location.search, { method: 'HEAD', redirect: 'manual', headers: { Accept: 'text/html' } });
      gone = answer.type === 'opaqueredirect' || answer.status === 401;
    } catch { /* the admin is away */ }
    if (gone) return loggedOut();
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
    if (source && Date.now() - last > 5000) say('stale', 'stale', 'nothing was heard for ' + Math.round((Date.now() - last) / 1000) + ' s');
    countdown();
  }, 500);

  // countdown runs the times that an element of <time data-until="RFC 3339"> names down to nothing.
  function countdown() {
    for (const element of document.querySelectorAll('[data-until]')) {
      if (!element.dataset.until) continue;
      const left = Math.max(0, Date.parse(element.dataset.until) - Date.now());
      const s = Math.ceil(left / 1000);
      const m = Math.floor(s / 60), h = Math.floor(m / 60);
      element.textContent = s < 60 ? s + 's' : m < 60 ? m + 'm ' + s % 60 + 's' : h < 24 ? h + 'h ' + m % 60 + 'm' : Math.floor(h / 24) + 'd ' + h % 24 + 'h';
    }
  }

  countdown();

  // A box that ticks all others of its form, by their name.
  document.addEventListener('change', (event) => {
    const name = event.target.dataset.ticks;
    if (name) for (const box of event.target.form.querySelectorAll('[name="' + name + '"]')) box.checked = event.target.checked;
  });

  // Dialogs: an element with data-dialog="url" opens what the server answers; a form in it with method=dialog closes it.
  const dialog = document.getElementById('dialog');
  document.addEventListener('click', async (event) => {
    const opener = event.target.closest('[data-dialog]');
    if (opener) {
      event.preventDefault();
      await htmx.ajax('GET', opener.dataset.dialog, { target: '#dialog', swap: 'innerHTML' });
      if (!dialog.open) dialog.showModal();
      return;
    }
    if (event.target.closest('[data-close]') && dialog.open) dialog.close();
    const copy = event.target.closest('[data-copy]');
    if (copy) {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
      copy.dataset.copied = '';
      setTimeout(() => delete copy.dataset.copied, 1500);
    }
  });
})();
