package rig

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/load"
)

// handoverTime bounds one hand-over with all that follows it: the old leader's CVM
// restarts, and is a replica that may lead again.
const handoverTime = 5 * time.Minute

// handover is the cost of one hand-over: the watchers' observations, and each way's writes from
// before it until all was whole again.
type handover struct {
	switched

	ways map[load.Way]load.Summary
	// whole is how long it took until the next one could begin.
	whole time.Duration
	// busy is the machine's load average of the minute, when it was.
	busy float64
}

// roleSwitch is from the new leader's taking writes to the first answer of it over the route.
// None is negative: where the route was first, the look at the member was the slower one.
func (h handover) roleSwitch() time.Duration { return max(0, h.reached.Sub(h.took)) }

// routeFirst reports that the new leader answered over the route before its own answer was
// seen: it took writes before took, and how long before is not known.
func (h handover) routeFirst() bool { return h.reached.Before(h.took) }

// handOver has the leader's CVM restarted, for which its agent hands the leadership over
// first, and measures that.
func (r *Rig) handOver(ctx context.Context, app *inside) (handover, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handoverTime, fmt.Errorf("not over after %s", handoverTime))
	defer cancel()
	leader, err := r.settled(ctx)
	if err != nil {
		return handover{}, err
	}
	c, err := r.Client()
	if err != nil {
		return handover{}, err
	}
	instances, err := c.Instances(ctx, Postgres)
	if err != nil {
		return handover{}, err
	}
	members := make([]string, 0, len(instances))
	for _, i := range instances {
		members = append(members, i.Slot)
	}
	from := time.Now()
	w := &watchers{from: app, route: masterRoute}
	// An operation that fails ends the watch.
	watching, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	over := make(chan error, 1)
	var h handover
	h.switched, err = w.watch(watching, leader, members, func() error {
		id, err := c.Restart(ctx, leader, "benchmark of the service layer")
		if err != nil {
			return err
		}
		go func() {
			err := c.WaitRequest(ctx, id, func(client.Operation) {}, nil)
			if err != nil {
				giveUp(err)
			}
			over <- err
		}()
		return nil
	})
	if err != nil {
		return h, fmt.Errorf("hand-over of %s: %w", leader, err)
	}
	if err := <-over; err != nil {
		return h, fmt.Errorf("restart of %s: %w", leader, err)
	}
	if _, err := r.settled(ctx); err != nil {
		return h, err
	}
	h.whole, h.busy = time.Since(from), loadAverage()
	h.ways, err = r.waySummaries(ctx, from, time.Now())
	return h, err
}

// loadAverage is that of the last minute: how many processes of the whole machine wanted to
// run. 0 where the kernel does not say.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	value, _ := strconv.ParseFloat(first, 64)
	return value
}
