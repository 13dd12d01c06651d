// A worker of a crowd joins by the shared link: the browser shows the secret that it keeps, and goes to the worker's page.

import { Api, ApiError } from './api.js';
import { h } from './dom.js';
import { said, setStrings, t } from './i18n.js';
import { keep, kept, uuid } from './outbox.js';

const settings = JSON.parse(document.getElementById('settings').textContent);
setStrings(settings.strings, settings.locale);
const secret = kept(settings.key) ?? uuid();
keep(settings.key, secret); // before it is sent: whoever loses the answer comes again

async function join() {
  try {
    const { page } = await new Api('').join(location.pathname + location.search, secret);
    location.replace(page);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const words = error.status === 0 ? t('offline_start') : said(error);
    document.getElementById('page').replaceChildren(h('main', { class: 'words' },
      h('h1', { text: t(error.status === 0 ? 'no_connection' : 'not_possible') }), h('p', { dir: 'auto', role: 'status', text: words })));
    if (error.passing) setTimeout(join, Math.max(5000, error.wait * 1000));
  }
}

join();
