package logic

import (
	"testing"

	"pgregory.net/rapid"
)

func TestACacheForgetsWhatWasNotUsed(t *testing.T) {
	c := newCache[int, string](3)
	c.put(0, "kept", 1)
	for i := 1; i < 100; i++ {
		if _, ok := c.get(0); !ok {
			t.Fatalf("forgotten after %d others, though it is used all the time", i)
		}
		c.put(i, "passing", 1)
	}
	if _, ok := c.get(1); ok {
		t.Error("what nobody asks for stays")
	}
}

func TestACacheIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		c := newCache[int, int](limit)
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			key := rapid.IntRange(0, 30).Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c.drop(key)
				if _, ok := c.get(key); ok {
					t.Fatalf("%d was dropped and is there", key)
				}
			case 1:
				c.clear()
			case 2, 3, 4:
				if weight, ok := c.get(key); ok && weight < 1 {
					t.Fatalf("%d has the value %d", key, weight)
				}
			default:
				weight := rapid.IntRange(1, 20).Draw(t, "weight")
				c.put(key, weight, weight)
				if got, ok := c.get(key); !ok || got != weight {
					t.Fatalf("%d is %d, %v after it was put as %d", key, got, ok, weight)
				}
			}
			young, old := 0, 0
			for _, entry := range c.young {
				young += entry.weight
			}
			for key, entry := range c.old {
				old += entry.weight
				if _, ok := c.young[key]; ok {
					t.Fatalf("%d is in both generations", key)
				}
			}
			if young != c.weight || young > limit || old > limit+20 {
				t.Fatalf("young weighs %d (counted %d), old %d, limit %d", young, c.weight, old, limit)
			}
		}
	})
}

func TestWhatWasLoadedBeforeAChangeIsNotKept(t *testing.T) {
	c := newCache[string, int](10)
	turn := c.since()
	c.drop("a")
	c.putSince(turn, "a", 1, 1)
	if _, ok := c.get("a"); ok {
		t.Error("a value from before the change is kept")
	}
	c.putSince(c.since(), "a", 2, 1)
	if v, ok := c.get("a"); !ok || v != 2 {
		t.Error("a value from after it is not")
	}
}

func TestNULIsFoundInWhateverWayItIsEscaped(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":"\u0000"}`: true, `{"a":"\\u0000"}`: false, `{"a":"\\\u0000"}`: true, `{"a":"\\\\u0000"}`: false,
		`{"a":"\\u0000\u0000"}`: true, `{"\u0000":1}`: true, `{"a":"u0000"}`: false, `{}`: false, `{"a":"\u00001"}`: true,
	} {
		if got := escapesNUL([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
