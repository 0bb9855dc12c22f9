package routes

import (
	"context"
	"errors"
	"fmt"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/route"
)

// rounds bound how often entries are looked at anew: a role that routes leave takes two.
const rounds = 3

// configure brings Consul's config entries to what they should be. left is what others' entries
// keep from being written.
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

// errChanged: an entry is not what the change was decided by.
var errChanged = errors.New("somebody else wrote it meanwhile")

// find reads what Consul has of the kinds that we write.
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
