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

// ListingLag bounds how long a lagging coordinator may still report a deleted group.
const ListingLag = 5 * time.Second

// ErrGroupsLeft reports that a cluster still has groups. Without its coordinators their CVMs would
// have no leader, and only the platform could delete them by hand.
var ErrGroupsLeft = errors.New("the cluster still has groups")

// NoGroupsLeft is nil when the coordinators of a cluster have no group, and wraps ErrGroupsLeft
// when they still have one after patience. Coordinators that never proved themselves have none;
// coordinators that cannot be reached are an error as well.
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
