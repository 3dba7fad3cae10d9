# SPDX-License-Identifier: BSD-3-Clause
#
# Gets without an end, for bench/clients: load.rb HOST PORT AT-ONCE KEYS
# Every value is compared.
require "dalli"

ITEMS = 1000
HOST, PORT, = ARGV
NKEYS = ARGV[3].to_i

def check(key, found)
  abort("load: #{key} has the value #{found}") unless found == key.ljust(100, ".")
end

# The bench stops a client while it measures another.
client = Dalli::Client.new("#{HOST}:#{PORT}", raw: true, socket_timeout: 3600)
place = 0
loop do
  keys = Array.new(NKEYS) { |i| format("load:%03d", (place + 7 * i) % ITEMS) }
  place += 7 * NKEYS
  if NKEYS == 1
    check(keys[0], client.get(keys[0]))
  else
    found = client.get_multi(*keys)
    keys.each { |key| check(key, found[key]) }
  end
end
