/* SPDX-License-Identifier: BSD-3-Clause */
/* base64: the RFC's vectors, every byte and length, and the texts that memcached accepts beyond the
 * RFC. */
#include "base/base64.h"

#include <stdlib.h>

#include "t/lib/tap.h"

struct vector {
    const char *text, *bytes; /* bytes NULL: the decoder refuses the text */
};

static const struct vector rfc[] = {
    {"Zg==", "f"},        {"Zm8=", "fo"},        {"Zm9v", "foo"},
    {"Zm9vYg==", "foob"}, {"Zm9vYmE=", "fooba"}, {"Zm9vYmFy", "foobar"},
};

/* As observed on memcached 1.6.18. */
static const struct vector lenient[] = {
    {"ax==", "k"},
    {"aw==bg==", "k"},
    {"aw==!!!!", "k"},
    {"!!!!aw==", "k"},
    {"aaa=aw==", "i\xa6"},
    {"bm9=", "no"},
    {"bm=r", "n`"},
    {"a-w_==", "k"},
    {"aw", NULL},
    {"aw=", NULL},
    {"aw===", NULL},
    {"a===", NULL},
    {"====", NULL},
    {"!!!!", NULL},
    {"", NULL},
    {"awbg==bg==", NULL},
    {"aw-_", NULL},
    {"aw==a", NULL},
    {"\x80\xff"
     "aa",
     NULL},
};

static bool decodes_to(const struct vector *vector)
{
    struct slice text = {vector->text, strlen(vector->text)};
    char out[64];
    size_t n = 0;

    if (!base64_decode(out, text, &n))
        return !vector->bytes;
    return vector->bytes && slice_equal((struct slice){out, n},
                                        (struct slice){vector->bytes, strlen(vector->bytes)});
}

/* Texts of exactly their size, so that a sanitizer sees a byte too many. */
static bool comes_back(size_t n, unsigned int seed)
{
    char *bytes = malloc(n + 1);
    char *text = malloc(BASE64_TEXT_BYTES(n) + 1);
    char *again = malloc(BASE64_MAX_BYTES(BASE64_TEXT_BYTES(n)) + 1);
    size_t ntext, nagain = 0, i;
    bool same;

    for (i = 0; i < n; i++)
        bytes[i] = (char)(i * 37 + seed);
    ntext = base64_encode(text, (struct slice){bytes, n});
    same = ntext == BASE64_TEXT_BYTES(n) &&
           base64_decode(again, (struct slice){text, ntext}, &nagain) &&
           slice_equal((struct slice){bytes, n}, (struct slice){again, nagain});
    free(bytes);
    free(text);
    free(again);
    return same;
}

int main(void)
{
    bool all = true;

    for (size_t i = 0; i < COUNT(rfc); i++) {
        char text[16];
        size_t ntext = base64_encode(text, (struct slice){rfc[i].bytes, strlen(rfc[i].bytes)});

        ok(slice_equal((struct slice){text, ntext},
                       (struct slice){rfc[i].text, strlen(rfc[i].text)}) &&
               decodes_to(&rfc[i]),
           "%s encodes to %s and decodes to itself", rfc[i].bytes, rfc[i].text);
    }
    for (size_t i = 0; i < COUNT(lenient); i++) {
        ok(decodes_to(&lenient[i]), "'%s' is %s", lenient[i].text,
           lenient[i].bytes ? "decoded as memcached decodes it" : "refused");
    }
    for (size_t n = 1; n <= 250; n++)
        for (unsigned int seed = 0; seed < 256; seed += 5)
            all &= comes_back(n, seed);
    ok(all, "bytes of any value and length are the same after encoding and decoding");
    return done();
}
