package latestvalue

import (
	"context"
	"reflect"
)

// Next returns a channel that is closed at the next Set.
func (v *Value[T]) Next() <-chan struct{} {
	_, index := v.Get()
	return v.Changed(index)
}

// Each calls do at once, and again after a change of any source, until ctx ends; changes that come
// while do works are one. A source gives what is closed at its next change, as Next does; nil:
// it has none.
func Each(ctx context.Context, do func(), sources ...func() <-chan struct{}) {
	next := make([]reflect.SelectCase, 1+len(sources))
	next[0] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}
	for {
		for i, source := range sources {
			// Before do reads them: what changes from here on is seen by the next turn.
			next[1+i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(source())}
		}
		do()
		if i, _, _ := reflect.Select(next); i == 0 || ctx.Err() != nil {
			return
		}
	}
}
