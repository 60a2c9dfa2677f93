package schedule

import "github.com/redquorum/redquorum/clock"

// itemHeap implements heap.Interface, the earliest item first.
type itemHeap[T any] struct {
	entry func(T) *Entry
	items []T
}

func (h *itemHeap[T]) at(i int) clock.Instant { return h.entry(h.items[i]).at }

func (h *itemHeap[T]) Len() int           { return len(h.items) }
func (h *itemHeap[T]) Less(i, j int) bool { return h.at(i) < h.at(j) }

func (h *itemHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.entry(h.items[i]).pos, h.entry(h.items[j]).pos = int32(i)+1, int32(j)+1
}

func (h *itemHeap[T]) Push(x any) {
	item := x.(T)
	h.items = append(h.items, item)
	h.entry(item).pos = int32(len(h.items))
}

func (h *itemHeap[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	h.entry(item).pos = 0
	return item
}
