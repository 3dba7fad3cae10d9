/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/forecast.h"

enum {
    MINUTE = 60,
    WORTH = 100,      /* a crawl is, when one in so many items is dead */
    TURNOVER_MAX = 16 /* minutes */
};

uint64_t forecast_worth(uint64_t live)
{
    return live < WORTH ? 1 : live / WORTH;
}

void forecast_count(struct forecast_found *found, rel_time exptime, rel_time now)
{
    if (exptime > now && (exptime - now) / MINUTE < FORECAST_MINUTES)
        found->soon[(exptime - now) / MINUTE]++;
}

void forecast_learn(struct forecast *forecast, const struct forecast_found *found, uint64_t stored,
                    rel_time now)
{
    uint64_t live = found->seen - found->dead;
    uint64_t due = 0;
    unsigned int minute = 0;

    while (minute < FORECAST_MINUTES && due < forecast_worth(live))
        due += found->soon[minute++];
    forecast->expiry_min = minute;
    forecast->expected = due;
    if (found->dead >= forecast_worth(found->seen) || (!found->seen && !forecast->turnover_min))
        forecast->turnover_min = 1;
    else if (found->seen && forecast->turnover_min < TURNOVER_MAX)
        forecast->turnover_min = forecast->turnover_min ? 2 * forecast->turnover_min : 2;
    forecast->live = live;
    forecast->stored = stored;
    forecast->since = now;
}

rel_time forecast_wait(struct forecast *forecast, uint64_t stored, rel_time now)
{
    unsigned int minutes;
    uint64_t fresh;

    if (forecast->since == 0)
        *forecast =
            (struct forecast){.since = now, .expiry_min = FORECAST_MINUTES, .turnover_min = 1};
    fresh = stored - forecast->stored;
    if (forecast->live == 0 && fresh == 0)
        return FORECAST_MINUTES * MINUTE;
    minutes = forecast->expiry_min;
    if (fresh > forecast->live / 2 && forecast->turnover_min < minutes)
        minutes = forecast->turnover_min;
    return forecast->since + minutes * MINUTE > now ? forecast->since + minutes * MINUTE - now : 0;
}
