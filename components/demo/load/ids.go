package load

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
)

// IDs is a set of write ids. Ids are given out in sequence, so it is kept as spans; its
// size is the number of holes, not of ids. The zero value is empty.
type IDs struct {
	// spans are [first, last], ascending, and neither overlap nor touch.
	spans [][2]int64
	count int
}

// Add puts one id in.
func (s *IDs) Add(id int64) {
	// The first span that ends at id or later.
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i][1] >= id })
	if i < len(s.spans) && s.spans[i][0] <= id {
		return
	}
	s.count++
	before := i > 0 && s.spans[i-1][1] == id-1
	after := i < len(s.spans) && s.spans[i][0] == id+1
	switch {
	case before && after:
		s.spans[i-1][1] = s.spans[i][1]
		s.spans = slices.Delete(s.spans, i, i+1)
	case before:
		s.spans[i-1][1] = id
	case after:
		s.spans[i][0] = id
	default:
		s.spans = slices.Insert(s.spans, i, [2]int64{id, id})
	}
}

// Has reports whether id is in it.
func (s IDs) Has(id int64) bool {
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i][1] >= id })
	return i < len(s.spans) && s.spans[i][0] <= id
}

// Len is the number of ids.
func (s IDs) Len() int { return s.count }

// Clone is a copy.
func (s IDs) Clone() IDs { return IDs{spans: slices.Clone(s.spans), count: s.count} }

// Without are the ids of s that other lacks.
func (s IDs) Without(other IDs) IDs {
	var out IDs
	i := 0
	for _, span := range s.spans {
		from := span[0]
		for i < len(other.spans) && other.spans[i][1] < from {
			i++
		}
		for k := i; k < len(other.spans) && other.spans[k][0] <= span[1]; k++ {
			out.span(from, other.spans[k][0]-1)
			from = other.spans[k][1] + 1
		}
		out.span(from, span[1])
	}
	return out
}

// span appends ids behind all others; none if last comes before first.
func (s *IDs) span(first, last int64) {
	if first <= last {
		s.spans = append(s.spans, [2]int64{first, last})
		s.count += int(last - first + 1)
	}
}

// forget drops the lowest ids until there are at most n spans, and says how many.
func (s *IDs) forget(n int) int {
	dropped := 0
	for len(s.spans) > n {
		dropped += int(s.spans[0][1] - s.spans[0][0] + 1)
		s.spans = s.spans[1:]
	}
	s.count -= dropped
	return dropped
}

// First are the lowest n spans, for people: "7", "9-12".
func (s IDs) First(n int) []string {
	var out []string
	for _, span := range s.spans[:min(n, len(s.spans))] {
		if span[0] == span[1] {
			out = append(out, fmt.Sprint(span[0]))
			continue
		}
		out = append(out, fmt.Sprintf("%d-%d", span[0], span[1]))
	}
	return out
}

// MarshalJSON writes the spans.
func (s IDs) MarshalJSON() ([]byte, error) {
	if s.spans == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(s.spans)
}

// UnmarshalJSON reads the spans.
func (s *IDs) UnmarshalJSON(raw []byte) error {
	var spans [][2]int64
	if err := json.Unmarshal(raw, &spans); err != nil {
		return err
	}
	*s = IDs{}
	for i, span := range spans {
		if span[0] > span[1] || i > 0 && span[0] <= spans[i-1][1]+1 {
			return fmt.Errorf("span %d of ids, %d to %d, is out of order", i, span[0], span[1])
		}
		s.span(span[0], span[1])
	}
	return nil
}
