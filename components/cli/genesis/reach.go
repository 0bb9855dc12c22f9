package genesis

import (
	"context"
	"errors"

	"cadre.dev/client"
)

// Reach talks to single coordinators, each selected by the instance id of its CVM.
type Reach interface {
	// Prove has the coordinator prove itself, and returns the compose hash that its evidence proves.
	Prove(ctx context.Context, c client.Context, instance string) (composeHash string, err error)
	Facts(ctx context.Context, c client.Context, instance string) (client.CoordinatorFacts, error)
	StepDown(ctx context.Context, c client.Context, instance, raftTo string) error
	RemoveVoter(ctx context.Context, c client.Context, instance, slot string) error
	// Groups asks any coordinator for all groups.
	Groups(ctx context.Context, c client.Context) ([]client.Group, error)
}

// gateway reaches coordinators through the platform's gateway.
type gateway struct{ dial client.Options }

func (g gateway) to(instance string) client.Options {
	g.dial.Instance = instance
	return g.dial
}

func (g gateway) call(c client.Context, instance string, do func(*client.Client) error) (err error) {
	cl, err := client.Dial(c, g.to(instance))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cl.Close()) }()
	return do(cl)
}

// Prove implements Reach.
func (g gateway) Prove(ctx context.Context, c client.Context, instance string) (string, error) {
	got, err := client.Attest(ctx, c, g.to(instance))
	return got.Claims.ComposeHash, err
}

// Facts implements Reach.
func (g gateway) Facts(ctx context.Context, c client.Context, instance string) (out client.CoordinatorFacts, err error) {
	err = g.call(c, instance, func(cl *client.Client) error { out, err = cl.CoordinatorFacts(ctx); return err })
	return out, err
}

// StepDown implements Reach.
func (g gateway) StepDown(ctx context.Context, c client.Context, instance, raftTo string) error {
	return g.call(c, instance, func(cl *client.Client) error { _, _, err := cl.StepDown(ctx, raftTo); return err })
}

// RemoveVoter implements Reach.
func (g gateway) RemoveVoter(ctx context.Context, c client.Context, instance, slot string) error {
	return g.call(c, instance, func(cl *client.Client) error { _, err := cl.RemoveVoter(ctx, slot); return err })
}

// Groups implements Reach.
func (g gateway) Groups(ctx context.Context, c client.Context) (out []client.Group, err error) {
	err = g.call(c, "", func(cl *client.Client) error {
		list, err := cl.Groups(ctx)
		if err != nil {
			return err
		}
		for _, one := range list {
			group, err := cl.Group(ctx, one.GetGroup())
			if client.KindOf(err) == client.NotFound {
				continue // it was deleted meanwhile
			}
			if err != nil {
				return err
			}
			out = append(out, group)
		}
		return nil
	})
	return out, err
}
