// Calls of the server. The link's token goes as a header; there are no cookies.

export class ApiError extends Error {
  constructor(status, code, message, wait) {
    super(message);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }

  /** Whether sending the same again later can work: no network, too fast, storage in trouble. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export class Api {
  constructor(token) {
    this.token = token;
  }

  async call(method, path, body, { keepalive = false, timeout = 20000 } = {}) {
    const headers = { 'X-Aliquot-Token': this.token };
    const options = { method, headers, keepalive, cache: 'no-store', credentials: 'omit' };
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
      options.body = JSON.stringify(body);
    }
    if (!keepalive) options.signal = AbortSignal.timeout(timeout);
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new ApiError(0, 'offline', '', 0);
    }
    let answer = null;
    try {
      answer = await response.json();
    } catch {
      if (response.ok) throw new ApiError(0, 'offline', '', 0);
    }
    if (!response.ok) {
      const wait = Number(response.headers.get('Retry-After')) || 0;
      throw new ApiError(response.status, answer?.error ?? 'unknown', answer?.message ?? '', wait);
    }
    return answer;
  }

  join(link, secret) { return this.call('POST', link, { secret }); }
  state() { return this.call('GET', '/api/state'); }
  next() { return this.call('POST', '/api/next', {}); }
  unit(assignment) { return this.call('GET', `/api/unit/${encodeURIComponent(assignment)}`); }
  history() { return this.call('GET', '/api/history'); }
  save(assignment, changes, options) { return this.call('POST', '/api/save', { assignment, changes }, options); }
  submit(assignment) { return this.call('POST', '/api/submit', { assignment }); }
  quiz(answers) { return this.call('POST', '/api/quiz', { answers }); }
  example(score) { return this.call('POST', '/api/example', { score }); }
  giveBack(assignment, reason) { return this.call('POST', '/api/return', { assignment, reason }); }
}
