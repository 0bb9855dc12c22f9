package slowlink

import (
	"container/heap"
)

// item is a frame underway.
type item struct {
	at    int64
	frame []byte
}

// direction holds the frames of one direction between the reads at one end and
// the writes at the other. Owned by one goroutine.
type direction struct {
	line  *line
	queue ring      // on time, in order
	held  itemHeap  // held back
	pools [3]bufs   // by size class
	fly   int       // bytes underway
	stats LineStats // since the beginning
}

// LineStats counts one direction's packets: segments, as they would be on a wire.
type LineStats struct {
	Packets, Bytes   int64 // delivered
	Lost, QueueDrops int64
	Delayed          int64
	// Unwritten could not be written: the interface is down or gone.
	Unwritten int64
	// Reads and Writes are system calls that moved something.
	Reads, Writes int64
}

// offer takes a frame that was read at now; it is not kept.
func (d *direction) offer(now int64, frame []byte) {
	s, many := shapeOf(frame)
	if !many {
		switch f, at := d.line.offer(now, len(frame)-vnetLen); f {
		case lost:
			d.stats.Lost++
		case full:
			d.stats.QueueDrops++
		case held:
			d.stats.Delayed++
			d.keep(held, at, append(d.buffer(len(frame)), frame...), 1)
		case onTime:
			d.keep(onTime, at, append(d.buffer(len(frame)), frame...), 1)
		}
		return
	}
	// A run is segments of one fate that leave together.
	n, from := s.count(), 0
	var due int64
	flush := func(to int) {
		if to > from {
			whole := vnetLen + s.head + min(to*s.size, s.body) - from*s.size
			d.keep(onTime, due, s.cut(d.buffer(whole), frame, from, to), to-from)
		}
		from = to
	}
	for i := range n {
		f, at := d.line.offer(now, s.bytes(i))
		if f == onTime {
			due = at
			if d.line.took((i+1-from)*(s.head+s.size)) > int64(maxBurst) {
				flush(i + 1)
			}
			continue
		}
		flush(i)
		from = i + 1
		switch f {
		case lost:
			d.stats.Lost++
		case full:
			d.stats.QueueDrops++
		case held:
			d.stats.Delayed++
			d.keep(held, at, s.cut(d.buffer(vnetLen+s.bytes(i)), frame, i, i+1), 1)
		case onTime:
		}
	}
	flush(n)
}

func (d *direction) keep(f fate, at int64, frame []byte, segments int) {
	if d.fly += len(frame); d.fly > maxFlight {
		d.stats.QueueDrops += int64(segments)
		d.recycle(frame)
		return
	}
	d.stats.Packets += int64(segments)
	d.stats.Bytes += int64(len(frame) - vnetLen)
	if f == held {
		heap.Push(&d.held, item{at, frame})
		return
	}
	d.queue.push(item{at, frame})
}

// next is when the next frame is due; ok is false when none is underway.
func (d *direction) next() (at int64, ok bool) {
	if d.queue.n > 0 {
		at, ok = d.queue.first().at, true
	}
	if len(d.held) > 0 && (!ok || d.held[0].at < at) {
		at, ok = d.held[0].at, true
	}
	return at, ok
}

// take removes the frame that is due next.
func (d *direction) take() []byte {
	if len(d.held) > 0 && (d.queue.n == 0 || d.held[0].at < d.queue.first().at) {
		return heap.Pop(&d.held).(item).frame
	}
	return d.queue.pop().frame
}

// classes are the sizes of buffers that are used again.
var classes = [3]int{2 << 10, 16 << 10, maxFrame}

type bufs [][]byte

func (d *direction) buffer(size int) []byte {
	for i, c := range classes {
		if size > c {
			continue
		}
		if n := len(d.pools[i]); n > 0 {
			b := d.pools[i][n-1]
			d.pools[i] = d.pools[i][:n-1]
			return b
		}
		return make([]byte, 0, c)
	}
	return make([]byte, 0, size)
}

// recycle gives a frame's buffer back once it is written.
func (d *direction) recycle(frame []byte) {
	d.fly -= len(frame)
	for i, c := range classes {
		if cap(frame) == c {
			d.pools[i] = append(d.pools[i], frame[:0])
		}
	}
}

// ring is a queue that grows and does not allocate otherwise.
type ring struct {
	items   []item
	head, n int
}

func (r *ring) first() item { return r.items[r.head] }

func (r *ring) push(it item) {
	if r.n == len(r.items) {
		grown := make([]item, max(256, 2*r.n))
		for i := range r.n {
			grown[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = it
	r.n++
}

func (r *ring) pop() item {
	it := r.items[r.head]
	r.items[r.head] = item{}
	r.head, r.n = (r.head+1)%len(r.items), r.n-1
	return it
}

type itemHeap []item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h itemHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *itemHeap) Push(x any)        { *h = append(*h, x.(item)) }
func (h *itemHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	*h = old[:len(old)-1]
	return it
}
