package observe

import (
	"context"
	"fmt"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// Observer observes the current state of a group, for callers that must not use older observations.
type Observer struct {
	Cluster string
	Store   store.Store
	// Views has the known records of other groups; nil: all records are read.
	Views   *view.Watcher
	Listing *Platform
	Reports Reports
}

// Observe reads the records of a group, the platform's list and the reports, in that order.
func (l Observer) Observe(ctx context.Context, name string) (*view.View, Seen, error) {
	var latest *view.View
	if l.Views != nil {
		latest, _ = l.Views.Latest()
	}
	v, err := view.ReadGroup(ctx, l.Store, name, latest, nil)
	if err != nil {
		return nil, Seen{}, err
	}
	if bad := v.Unusable(name); bad != nil {
		return nil, Seen{}, bad
	}
	spec, _, ok := v.InForce(name)
	if !ok {
		return nil, Seen{}, fmt.Errorf("group %s has no spec in force", name)
	}
	return v, Group(v, spec, l.Cluster, l.Listing.List(ctx, name, 0), l.Reports), nil
}
