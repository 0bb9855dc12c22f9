package call

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxStop bounds how long a workload may be given to end.
const MaxStop = 10 * time.Minute

// Restart ends the workload of the service that shares dir and starts it again. The workload gets
// SIGTERM, and is killed after stop with all its leftovers. nil means that the new one was started.
// ErrNotThere is safe to retry; after any other error it is unknown whether the workload was ended.
func Restart(ctx context.Context, dir string, stop time.Duration) error {
	if stop > MaxStop {
		return fmt.Errorf("stop: is %s, at most %s are allowed", stop, MaxStop)
	}
	reply, err := Do(ctx, dir, Request{Restart: true, Time: stop})
	switch {
	case err != nil:
		return err
	case reply.End != Exited || reply.Code != 0:
		return errors.New("was not restarted: " + reply.Problem)
	}
	return nil
}
