package sqlstore

// cache keeps what the writer has read or written. Nobody else writes, so an
// entry is right until its transaction rolls back, when everything is dropped.
// It holds between max and twice max entries: when the young half is full, it
// becomes the old half, and what was not asked for since is gone.
type cache[K comparable, V any] struct {
	max        int
	young, old map[K]V
}

func newCache[K comparable, V any](size int) cache[K, V] {
	return cache[K, V]{max: size, young: map[K]V{}}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.young[k]
	if ok {
		return v, true
	}
	if v, ok = c.old[k]; ok {
		c.put(k, v)
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	if len(c.young) >= c.max {
		c.old, c.young = c.young, map[K]V{}
	}
	c.young[k] = v
}

func (c *cache[K, V]) drop(k K) {
	delete(c.young, k)
	delete(c.old, k)
}

func (c *cache[K, V]) clear() { c.young, c.old = map[K]V{}, nil }
