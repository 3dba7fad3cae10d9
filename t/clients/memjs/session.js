// SPDX-License-Identifier: BSD-3-Clause

// A session of memjs, a client of the binary protocol: session.js PORT
'use strict';
const memjs = require('memjs');

let count = 0;
let failed = 0;

function is(got, want, name) {
  const passed = JSON.stringify(got) === JSON.stringify(want);
  count++;
  console.log(`${passed ? 'ok' : 'not ok'} ${count} - ${name}`);
  if (!passed) {
    failed++;
    console.log(`# got:  ${JSON.stringify(got)}`.slice(0, 300));
    console.log(`# want: ${JSON.stringify(want)}`.slice(0, 300));
  }
}

async function text(c, key) {
  const { value } = await c.get(key);
  return value && value.toString();
}

async function fails(promise, name) {
  is(await promise.then(() => false, () => true), true, name);
}

async function storage(c) {
  is(await c.set('a', '1', {}), true, 'set');
  is(await text(c, 'a'), '1', 'get returns the value');
  is(await text(c, 'none'), null, 'get misses');
  is(await c.add('a', '2', {}), false, 'add keeps an existing value');
  is(await c.add('b', '2', {}), true, 'add stores a missing key');
  is(await c.replace('none', '2', {}), false, 'replace stores no missing key');
  is(await c.replace('b', '3', {}), true, 'replace stores an existing key');
  is(await c.append('b', '4'), true, 'append');
  // Its prepend sends the opcode of append.
  is(await c.prepend('b', '5'), true, 'append again');
  await fails(c.append('none', '4'), 'append to a missing key fails');
  is(await text(c, 'b'), '345', 'the value has all three parts');
}

async function numbers(c) {
  is((await c.increment('n', 5, { initial: 10 })).value, 10,
    'incr of a missing key stores the initial value');
  is((await c.increment('n', 5, {})).value, 15, 'incr');
  is((await c.decrement('n', 6, {})).value, 9, 'decr');
  is((await c.decrement('n', 100, {})).value, 0, 'decr stops at 0');
}

async function values(c) {
  const all = Buffer.from([...Array(256).keys()]);
  const sizes = {
    'no bytes': Buffer.alloc(0),
    'bytes of every kind': Buffer.concat([all, Buffer.from('\r\nEND\r\n')]),
    '1 MB': Buffer.concat(Array(3906).fill(all)),
  };
  for (const [name, want] of Object.entries(sizes)) {
    is(await c.set('v', want, {}), true, `set of a value of ${name}`);
    const { value } = await c.get('v');
    is(value !== null && value.equals(want), true, `get returns ${name}`);
  }
  is(await c.set('k'.repeat(250), 'x', {}), true, 'a key of 250 bytes');
  is(await text(c, 'k'.repeat(250)), 'x', 'a get of it returns its value');
}

// All requests are sent before the first reply: the client matches replies by opaque.
async function pipelined(c) {
  const keys = [...Array(300).keys()].map((i) => `p${i}`);
  const stored = await Promise.all(keys.map((key) => c.set(key, `value of ${key}`, {})));
  is(stored.filter((done) => done).length, 300, '300 sets at once');
  const found = await Promise.all(keys.map((key) => text(c, key)));
  is(found, keys.map((key) => `value of ${key}`), '300 gets at once return the values');
}

async function gone(c, key, name) {
  const end = Date.now() + 10000;
  while (Date.now() < end && (await text(c, key)) !== null) {
    await new Promise((done) => setTimeout(done, 50));
  }
  is(await text(c, key), null, name);
}

async function times(c) {
  is(await c.set('t', 'x', { expires: 1 }), true, 'set for 1 s');
  is(await c.set('u', 'x', {}), true, 'set for ever');
  is(await c.touch('u', 1), true, 'touch');
  is(await c.touch('none', 1), false, 'touch of a missing key');
  await gone(c, 't', 'an item expires');
  await gone(c, 'u', 'a touched item expires');
}

// The client calls back for the last row of stats and for every one before it.
function stats(c, key) {
  return new Promise((done, failedTo) => {
    c.statsWithKey(key, (error, _server, rows) => (error ? failedTo(error) : done(rows)));
  });
}

async function theServer(c) {
  is((await stats(c, '')).pointer_size, '64', 'stats');
  is(Number((await stats(c, 'settings')).maxbytes) > 0, true, 'stats settings');
  is(await c.delete('a'), true, 'delete');
  is(await c.delete('a'), false, 'delete again');
  is(await text(c, 'b'), '345', 'another item still exists');
  is(Object.values(await c.flush()), [true], 'flush_all');
  is(await text(c, 'b'), null, 'get misses afterwards');
}

async function refused(c) {
  await fails(c.set('v', Buffer.alloc(2 << 20), {}), 'set of a value over the limit fails');
}

async function main() {
  const c = memjs.Client.create(`127.0.0.1:${process.argv[2]}`, { retries: 1, timeout: 30 });
  try {
    for (const part of [storage, numbers, values, pipelined, times, theServer, refused]) {
      await part(c);
    }
  } catch (error) {
    is(String(error), '', 'the session runs to its end');
  }
  c.close();
  console.log(`1..${count}`);
  process.exit(failed ? 1 : 0);
}

main();
