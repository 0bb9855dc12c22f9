package driver

import "context"

// none is for workloads without roles and without quorum: health checks and
// hooks alone judge them. It has no settings.
type none struct{ self string }

var _ Driver = none{}

func (none) Observe(context.Context) (View, error) {
	return View{Role: RoleNone, Liveness: LivenessAlive, Ready: true, CaughtUp: ptr(true), MayDisrupt: true}, nil
}

func (none) Transfer(context.Context, TransferRequest) (Transferred, error) {
	return Transferred{}, nil
}

func (none) Drain(context.Context) error { return nil }

func (none) CancelDrain(context.Context) error { return nil }
