// What every view uses: having the page drawn again, and questions to the server.

let drawing = () => {},
  isAsked = false;

// Say what draws the page.
export function drawBy(draw) {
  drawing = draw;
}

export function show() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    drawing();
  });
}

async function answer(path, request, otherwise) {
  try {
    const response = await fetch(`/api/${path}`, request);
    return await response.json();
  } catch {
    return { error: otherwise };
  }
}

export const ask = (name, query) => answer(`${name}?${new URLSearchParams(query)}`, {}, "the server does not answer");

// What is asked for a view: no answer before it is there, and another once it is `againMs` old.
export function asking(name, againMs = Infinity) {
  const last = { key: "", atMs: 0, answer: null };
  return {
    answer(query) {
      const key = JSON.stringify(query);
      if (key !== last.key) last.answer = null;
      if (key !== last.key || Date.now() - last.atMs > againMs) {
        last.key = key;
        last.atMs = Date.now();
        ask(name, query).then((answer) => {
          if (last.key !== key) return;
          last.answer = answer;
          show();
        });
      }
      return last.answer;
    },
    forget() {
      last.key = "";
    },
  };
}

// Has the server change something, or say what it would; only this page may.
export function tell(name, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return answer(name, request, "The server does not answer: check whether the offsets were moved.");
}
