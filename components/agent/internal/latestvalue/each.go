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
// while do works are combined. A source returns a channel that is closed at its next change, as
// Next does, or nil for no source.
func Each(ctx context.Context, do func(), sources ...func() <-chan struct{}) {
	next := make([]reflect.SelectCase, 1+len(sources))
	next[0] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}
	for {
		for i, source := range sources {
			// Read the channels before do: a later change then starts another turn.
			next[1+i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(source())}
		}
		do()
		if i, _, _ := reflect.Select(next); i == 0 || ctx.Err() != nil {
			return
		}
	}
}
