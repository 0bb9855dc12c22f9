package routes

import (
	"context"
	"errors"
	"fmt"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/route"
)

// rounds bounds the repetitions of find and change: a role that routes leave takes two.
const rounds = 3

// configure changes Consul's config entries to the decided ones. left is the error about changes
// that foreign entries block.
func (w *Writer) configure(ctx context.Context, d route.Partly) (left, err error) {
	all := wanted(d.Config)
	for range rounds {
		found, err := w.find(ctx)
		if err != nil {
			return left, err
		}
		var want entries
		want, left = keepOff(found, all)
		steps, more := changes(found, want, d.Leaves)
		var errs []error
		for _, step := range steps {
			if err := w.change(ctx, step); err != nil {
				errs = append(errs, err)
				continue
			}
			w.log.Info("consul's config entry written", "kind", step.kind, "name", step.name, "removed", step.put == nil)
		}
		if err := errors.Join(errs...); err != nil || !more {
			return left, err
		}
	}
	return left, fmt.Errorf("consul's config entries change while they are written: %w", errChanged)
}

// errChanged means that an entry changed after the decision.
var errChanged = errors.New("another writer changed it meanwhile")

// find reads Consul's entries of the kinds that Cadre writes.
func (w *Writer) find(ctx context.Context) (entries, error) {
	out := entries{}
	for _, kind := range []string{consul.ServiceResolver, consul.ServiceIntentions} {
		list, _, err := w.client.ConfigEntries().List(kind, (&consul.QueryOptions{}).WithContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("read consul's config entries of kind %s: %w", kind, err)
		}
		for _, one := range list {
			out.add(one)
		}
	}
	return out, nil
}

func (w *Writer) change(ctx context.Context, step change) error {
	write := (&consul.WriteOptions{}).WithContext(ctx)
	var ok bool
	var err error
	if step.put != nil {
		ok, _, err = w.client.ConfigEntries().CAS(step.put, step.index, write)
	} else {
		ok, _, err = w.client.ConfigEntries().DeleteCAS(step.kind, step.name, step.index, write)
	}
	if err == nil && !ok {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("write consul's %s %s: %w", step.kind, step.name, err)
	}
	return nil
}
