package logic

import "sync"

// cache is a map with a bound. It has two generations: what is used moves to
// the young one, and when that has grown to its limit, it becomes the old one
// and what nobody had asked for since is forgotten. So what stays is at most
// twice the limit and one entry, and what goes has not been used for longest,
// without a list to keep in order.
type cache[K comparable, V any] struct {
	limit int // weight of a generation

	mu     sync.Mutex // guards what follows
	weight int        // of young
	young  map[K]weighed[V]
	old    map[K]weighed[V]
	turn   uint64 // rises when something is dropped
}

type weighed[V any] struct {
	value  V
	weight int
}

func newCache[K comparable, V any](limit int) *cache[K, V] {
	return &cache[K, V]{limit: limit, young: map[K]weighed[V]{}}
}

// get is the value under key.
func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.young[key]; ok {
		return entry.value, true
	}
	entry, ok := c.old[key]
	if ok {
		delete(c.old, key)
		c.insert(key, entry)
	}
	return entry.value, ok
}

// put keeps a value. weight says how much of the limit it takes.
func (c *cache[K, V]) put(key K, value V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.old, key)
	c.insert(key, weighed[V]{value, weight})
}

// since is the turn to give to putSince, taken before a value is loaded.
func (c *cache[K, V]) since() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// putSince is put, unless something was dropped since: then the value may have
// been loaded before the change that dropped it.
func (c *cache[K, V]) putSince(turn uint64, key K, value V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == turn {
		delete(c.old, key)
		c.insert(key, weighed[V]{value, weight})
	}
}

// drop forgets a key.
func (c *cache[K, V]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	c.weight -= c.young[key].weight
	delete(c.young, key)
	delete(c.old, key)
}

// clear forgets everything.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	c.weight = 0
	clear(c.young)
	c.old = nil
}

// insert adds to the young generation. c.mu is held.
func (c *cache[K, V]) insert(key K, entry weighed[V]) {
	c.weight += entry.weight - c.young[key].weight
	c.young[key] = entry
	if c.weight > c.limit {
		c.old, c.young, c.weight = c.young, map[K]weighed[V]{}, 0
	}
}
