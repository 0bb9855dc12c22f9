package contest

import (
	"context"
	"errors"
	"os"
	"slices"

	"cadre.dev/bench/internal/overlay/certs"
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/lab/worker"
)

// env is the input of every measurement.
type env struct {
	ca  *certs.Authority
	log *os.File // output of the workers
	// program is the rendezvous server's.
	program string
	sockets load.Sockets // of applications
	debug   bool
}

// rig holds the parts that one measurement has started, and ends them in reverse order.
type rig struct {
	env
	ends []func() error
}

// start starts a worker that ends with the rig.
func (r *rig) start(ctx context.Context, at worker.Place, role string, config any) (*worker.Process, error) {
	p, err := worker.Start(ctx, at, role, config, r.log)
	if err != nil {
		return nil, err
	}
	r.ends = append(r.ends, p.Stop)
	return p, nil
}

// also ends something else with the rig.
func (r *rig) also(end func() error) { r.ends = append(r.ends, end) }

// close ends everything. A worker that must be forced to end is an error, for
// it would disturb the next measurement.
func (r *rig) close() error {
	var errs []error
	for _, end := range slices.Backward(r.ends) {
		errs = append(errs, end())
	}
	r.ends = nil
	return errors.Join(errs...)
}

// ask calls a method without arguments that answers with a T.
func ask[T any](ctx context.Context, p *worker.Process, method string) (T, error) {
	var v T
	err := p.Call(ctx, method, struct{}{}, &v)
	return v, err
}
