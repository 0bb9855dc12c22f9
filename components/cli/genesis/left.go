package genesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
)

// Hearsay is how long a group that is gone may still be told of, by a coordinator that has
// not heard of it.
const Hearsay = 5 * time.Second

// ErrGroupsLeft says that a cluster has groups yet. Without its coordinators nobody would
// look after their CVMs, and nobody could delete them but by hand on the platform.
var ErrGroupsLeft = errors.New("the cluster still has groups")

// NoGroupsLeft is nil when the coordinators of a cluster keep no group, and wraps
// ErrGroupsLeft when they still do after patience. Coordinators that never proved
// themselves keep none; those that cannot be asked are an error as well.
func NoGroupsLeft(ctx context.Context, c client.Context, patience time.Duration) error {
	if c.CAPEM == "" {
		return nil
	}
	cl, err := client.Dial(c, client.Options{})
	if err != nil {
		return err
	}
	defer cl.Close()
	for until := time.Now().Add(patience); ; {
		list, err := cl.Groups(ctx)
		if err == nil && len(list) == 0 {
			return nil
		}
		if err == nil {
			var names []string
			for _, g := range list {
				names = append(names, g.GetGroup())
			}
			slices.Sort(names)
			err = fmt.Errorf("%w: %s", ErrGroupsLeft, strings.Join(names, ", "))
		}
		if time.Now().After(until) || !pause(ctx, time.Second) {
			return err
		}
	}
}
