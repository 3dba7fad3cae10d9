// SPDX-License-Identifier: BSD-3-Clause

// Gets without an end, for bench/clients: load.js HOST PORT AT-ONCE
// Every value is compared.
'use strict';
const memjs = require('memjs');

const ITEMS = 1000;
const [host, port, atOnce] = process.argv.slice(2);
let place = 0;

async function ask(c) {
  for (;;) {
    const key = `load:${String(place).padStart(3, '0')}`;
    place = (place + 7) % ITEMS;
    const { value } = await c.get(key);
    if (String(value) !== key.padEnd(100, '.')) {
      console.error(`load: ${key} has the value ${value}`);
      process.exit(1);
    }
  }
}

// The bench stops a client while it measures another.
const client = memjs.Client.create(`${host}:${port}`, { retries: 1, timeout: 3600 });
for (let i = 0; i < Number(atOnce); i++) {
  ask(client);
}
