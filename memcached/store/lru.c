/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/lru.h"

static struct mc_item *at(const struct heap *heap, uint32_t ref)
{
    return ref ? heap_at(heap, ref) : NULL;
}

static void put_in(struct lru *lru, const struct heap *heap, struct mc_item *item,
                   enum lru_segment segment)
{
    struct lru_list *list = &lru->lists[segment];
    uint32_t ref = heap_ref(heap, item);

    item->clsid = (uint8_t)(lru_class_of(item) + segment * MC_CLASSES);
    item->prev = 0;
    item->next = list->head;
    if (list->head)
        at(heap, list->head)->prev = ref;
    else
        list->tail = ref;
    list->head = ref;
    list->nitems++;
    list->nbytes += item_bytes(item);
}

static void take_out(struct lru *lru, const struct heap *heap, struct mc_item *item)
{
    struct lru_list *list = &lru->lists[lru_segment_of(item)];

    if (item->prev)
        at(heap, item->prev)->next = item->next;
    else
        list->head = item->next;
    if (item->next)
        at(heap, item->next)->prev = item->prev;
    else
        list->tail = item->prev;
    list->nitems--;
    list->nbytes -= item_bytes(item);
}

void lru_link(struct lru *lru, const struct heap *heap, struct mc_item *item,
              enum lru_segment segment)
{
    put_in(lru, heap, item, segment);
    if (lru->sizes && sizes_on(lru->sizes)) {
        sizes_add(lru->sizes, item_bytes(item), 1);
        item_set_flags(item, MC_ITEM_SIZED);
    }
}

void lru_unlink(struct lru *lru, const struct heap *heap, struct mc_item *item)
{
    take_out(lru, heap, item);
    if (item->flags & MC_ITEM_SIZED) {
        sizes_add(lru->sizes, item_bytes(item), -1);
        item_clear_flags(item, MC_ITEM_SIZED);
    }
}

void lru_move(struct lru *lru, const struct heap *heap, struct mc_item *item,
              enum lru_segment segment)
{
    take_out(lru, heap, item);
    put_in(lru, heap, item, segment);
}

void lru_replace(struct lru *lru, const struct heap *heap, const struct mc_item *item,
                 struct mc_item *copy)
{
    struct lru_list *list = &lru->lists[lru_segment_of(item)];
    uint32_t ref = heap_ref(heap, copy);

    copy->prev = item->prev;
    copy->next = item->next;
    if (copy->prev)
        at(heap, copy->prev)->next = ref;
    else
        list->head = ref;
    if (copy->next)
        at(heap, copy->next)->prev = ref;
    else
        list->tail = ref;
}

struct mc_item *lru_tail(const struct lru *lru, const struct heap *heap, enum lru_segment segment)
{
    return at(heap, lru->lists[segment].tail);
}

rel_time lru_tail_age(const struct lru *lru, const struct heap *heap, enum lru_segment segment,
                      rel_time now)
{
    const struct mc_item *tail = lru_tail(lru, heap, segment);

    return tail ? item_age(tail, now) : 0;
}

struct mc_item *lru_head(const struct lru *lru, const struct heap *heap, enum lru_segment segment)
{
    return at(heap, lru->lists[segment].head);
}

struct mc_item *lru_after(const struct heap *heap, const struct mc_item *item)
{
    return at(heap, item->next);
}

struct mc_item *lru_before(const struct heap *heap, const struct mc_item *item)
{
    return at(heap, item->prev);
}

uint64_t lru_bytes(const struct lru *lru)
{
    uint64_t sum = 0;

    for (int i = 0; i < LRU_SEGMENTS; i++)
        sum += lru->lists[i].nbytes;
    return sum;
}
