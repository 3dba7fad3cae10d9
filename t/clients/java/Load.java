// SPDX-License-Identifier: BSD-3-Clause

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.XMemcachedClient;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;

/**
 * Gets without an end, for bench/clients: Load spymemcached|xmemcached HOST PORT AT-ONCE KEYS
 * AT-ONCE threads have one client. Every value is compared.
 */
public final class Load {
    private static final int ITEMS = 1000;
    /** The bench stops a client while it measures another. */
    private static final int TIMEOUT_MS = 3600 * 1000;

    private interface Get {
        Map<String, ?> of(List<String> keys) throws Exception;
    }

    private static Get spymemcached(InetSocketAddress server) throws Exception {
        MemcachedClient c = new MemcachedClient(
            new ConnectionFactoryBuilder().setOpTimeout(TIMEOUT_MS).build(), List.of(server));
        return keys -> keys.size() == 1 ? Map.of(keys.get(0), c.get(keys.get(0))) : c.getBulk(keys);
    }

    private static Get xmemcached(InetSocketAddress server) throws Exception {
        XMemcachedClient c = new XMemcachedClient(server);
        c.setOpTimeout(TIMEOUT_MS);
        c.setEnableHeartBeat(false);
        return keys -> keys.size() == 1 ? Map.of(keys.get(0), c.get(keys.get(0))) : c.get(keys);
    }

    private static void ask(Get get, int nkeys, int from) throws Exception {
        for (int place = from;;) {
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < nkeys; i++) {
                keys.add(String.format("load:%03d", place));
                place = (place + 7) % ITEMS;
            }
            Map<String, ?> found = get.of(keys);
            for (String key : keys) {
                if (!(key + ".".repeat(100 - key.length())).equals(found.get(key))) {
                    throw new IllegalStateException(key + " has the value " + found.get(key));
                }
            }
        }
    }

    public static void main(String[] words) throws Exception {
        InetSocketAddress server = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
        Get get = words[0].equals("spymemcached") ? spymemcached(server) : xmemcached(server);
        int nkeys = Integer.parseInt(words[4]);
        for (int i = 0; i < Integer.parseInt(words[3]); i++) {
            int from = i;
            new Thread(() -> {
                try {
                    ask(get, nkeys, from);
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            }).start();
        }
    }
}
