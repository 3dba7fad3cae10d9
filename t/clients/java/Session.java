// SPDX-License-Identifier: BSD-3-Clause

import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** A session of spymemcached: Session.java PORT text|binary */
public final class Session {
    private final MemcachedClient c;
    private int count;
    private int failed;

    private Session(MemcachedClient client) {
        c = client;
    }

    private void is(Object got, Object want, String name) {
        boolean passed = Objects.equals(got, want);
        count++;
        System.out.printf("%s %d - %s%n", passed ? "ok" : "not ok", count, name);
        if (!passed) {
            failed++;
            System.out.printf("# got:  %.300s%n# want: %.300s%n", got, want);
        }
    }

    private static <T> T wait(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private void storage() throws Exception {
        is(wait(c.set("a", 0, "1")), true, "set");
        is(c.get("a"), "1", "get returns the value");
        is(c.get("none"), null, "get misses");
        is(wait(c.add("a", 0, "2")), false, "add keeps an existing value");
        is(wait(c.add("b", 0, "2")), true, "add stores a missing key");
        is(wait(c.replace("none", 0, "2")), false, "replace stores no missing key");
        is(wait(c.replace("b", 0, "3")), true, "replace stores an existing key");
        is(wait(c.append("b", "4")), true, "append");
        is(wait(c.prepend("b", "2")), true, "prepend");
        is(wait(c.append("none", "4")), false, "append to a missing key stores nothing");
        is(c.get("b"), "234", "the value has all three parts");
        is(wait(c.set("p", 0, 12345678901L)), true, "set of a number");
        is(c.get("p"), 12345678901L, "its flags show the type");
    }

    private void uniqueIds() throws Exception {
        wait(c.set("cas", 0, "1"));
        CASValue<Object> first = c.gets("cas");
        is(first.getValue(), "1", "gets returns the value");
        is(c.cas("cas", first.getCas(), "2"), CASResponse.OK, "cas with the id of gets stores");
        is(c.cas("cas", first.getCas(), "3"), CASResponse.EXISTS,
            "cas with the old id stores nothing");
        is(c.cas("none", 7, "3"), CASResponse.NOT_FOUND, "cas of a missing key is not found");
        is(c.get("cas"), "2", "the value is that of the first cas");
        is(c.gets("none"), null, "gets misses");
    }

    private void numbers() throws Exception {
        is(c.incr("n", 5, 10), 10L, "incr of a missing key stores the default");
        is(c.incr("n", 5), 15L, "incr");
        is(c.decr("n", 6), 9L, "decr");
        is(c.decr("n", 100), 0L, "decr stops at 0");
        is(c.incr("none", 1), -1L, "incr of a missing key");
    }

    private void many() throws Exception {
        Map<String, Object> want = new HashMap<>();
        Map<String, Future<Boolean>> stored = new HashMap<>();
        for (int i = 0; i < 500; i++) {
            want.put("m" + i, "value " + i);
            stored.put("m" + i, c.set("m" + i, 0, "value " + i));
        }
        for (Future<Boolean> one : stored.values()) {
            if (!wait(one)) {
                is(false, true, "a set of many");
            }
        }
        List<String> keys = new java.util.ArrayList<>(want.keySet());
        keys.add("none");
        is(c.getBulk(keys), want, "a get of 501 keys returns the 500 that were set at once");
    }

    private void values() throws Exception {
        byte[] all = new byte[256];
        byte[] large = new byte[1000 * 1000];
        for (int i = 0; i < all.length; i++) {
            all[i] = (byte) i;
        }
        new java.util.Random(1).nextBytes(large);
        for (byte[] value : List.of(new byte[0], all, large)) {
            is(wait(c.set("v", 0, value)), true, "set of " + value.length + " bytes");
            is(Arrays.equals((byte[]) c.get("v"), value), true, "get returns them");
        }
        String key = "k".repeat(250);
        is(wait(c.set(key, 0, "x")), true, "a key of 250 bytes");
        is(c.get(key), "x", "a get of it returns its value");
    }

    private void gone(String key, String name) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (c.get(key) != null && System.nanoTime() < end) {
            Thread.sleep(50);
        }
        is(c.get(key), null, name);
    }

    private void times(boolean binary) throws Exception {
        wait(c.set("t", 1, "x"));
        wait(c.set("u", 0, "x"));
        is(wait(c.touch("u", 1)), true, "touch");
        is(wait(c.touch("none", 1)), false, "touch of a missing key");
        if (binary) {
            wait(c.set("g", 0, "x"));
            is(c.getAndTouch("g", 1).getValue(), "x", "gat returns the value");
            is(c.getAndTouch("none", 1), null, "gat misses");
            gone("g", "an item expires at the time that gat set");
        }
        gone("t", "an item expires");
        gone("u", "a touched item expires");
    }

    private void theServer() throws Exception {
        is(c.getVersions().size(), 1, "version");
        is(c.getStats().values().iterator().next().get("pointer_size"), "64", "stats");
        is(c.getStats("settings").values().iterator().next().containsKey("maxbytes"), true,
            "stats settings");
        is(wait(c.delete("a")), true, "delete");
        is(wait(c.delete("a")), false, "delete again");
        is(c.get("b"), "234", "another item still exists");
        is(wait(c.flush()), true, "flush_all");
        is(c.get("b"), null, "get misses afterwards");
    }

    private void all(boolean binary) {
        try {
            storage();
            uniqueIds();
            numbers();
            many();
            values();
            times(binary);
            theServer();
        } catch (Exception error) {
            is(error, null, "the session runs to its end");
        }
        System.out.printf("1..%d%n", count);
    }

    public static void main(String[] words) throws Exception {
        boolean binary = words[1].equals("binary");
        SerializingTranscoder transcoder = new SerializingTranscoder();
        transcoder.setCompressionThreshold(Integer.MAX_VALUE);
        MemcachedClient client = new MemcachedClient(
            new ConnectionFactoryBuilder()
                .setProtocol(binary ? ConnectionFactoryBuilder.Protocol.BINARY
                                    : ConnectionFactoryBuilder.Protocol.TEXT)
                .setFailureMode(FailureMode.Cancel)
                .setOpTimeout(20000)
                .setTranscoder(transcoder)
                .build(),
            List.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]))));
        Session session = new Session(client);
        session.all(binary);
        client.shutdown();
        System.exit(session.failed > 0 ? 1 : 0);
    }
}
