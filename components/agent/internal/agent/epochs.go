package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"cadre.dev/agent/internal/mesh"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// rotatedPause bounds how long a Boot lets pass before it renews for a new epoch.
const rotatedPause = time.Second

func secretsOf(grant *admissionv1.Credentials) map[string]mesh.Secret {
	out := map[string]mesh.Secret{}
	for _, s := range grant.GetSecrets() {
		out[s.GetName()] = mesh.Secret{
			Value: secret.New(s.GetValue()), Epoch: s.GetEpoch(), Mode: fs.FileMode(s.GetMode()), UID: s.GetUid(), GID: s.GetGid(),
		}
	}
	return out
}

// epochs are those of the gossip key and the secrets that this Boot has.
func (a *Agent) epochs() (gossip uint32, secrets map[string]uint32) {
	secrets = map[string]uint32{}
	current, _ := a.admitted.Get()
	if current == nil {
		return 0, secrets
	}
	for _, s := range current.Grant.GetSecrets() {
		secrets[s.GetName()] = s.GetEpoch()
	}
	return current.Grant.GetConsul().GetGossipEpoch(), secrets
}

// behind says what of the desired state is newer than the credentials; "" nothing.
func behind(desired *controlv1.Desired, grant *admissionv1.Credentials) string {
	if desired.GetVersion() == 0 {
		return "" // a coordinator that does not know yet
	}
	if c := grant.GetConsul(); c != nil && c.GetGossipEpoch() < desired.GetGossipEpoch() {
		return fmt.Sprintf("the gossip key has epoch %d now", desired.GetGossipEpoch())
	}
	wanted := maps.Clone(desired.GetSecretEpochs())
	for _, s := range grant.GetSecrets() {
		want, declared := wanted[s.GetName()]
		if !declared {
			return fmt.Sprintf("secret %s is not declared any more", s.GetName())
		}
		if s.GetEpoch() < want {
			return fmt.Sprintf("secret %s has epoch %d now", s.GetName(), want)
		}
		delete(wanted, s.GetName())
	}
	for name := range wanted {
		return fmt.Sprintf("secret %s is declared now", name)
	}
	return ""
}

// waitRotated returns what was rotated when the desired state tells of other epochs
// than the credentials have, or with ctx. It lets a moment pass, differently long on
// each member: they must not all come at once, and the coordinator that renews may
// see the new epoch a little later than the one that told of it.
func (a *Agent) waitRotated(ctx context.Context) error {
	for {
		desired, index := a.hub.Desired().Get()
		current, admitted := a.admitted.Get()
		var moment <-chan time.Time
		var why string
		if desired != nil && current != nil {
			if why = behind(desired, current.Grant); why != "" {
				timer := time.NewTimer(rand.N(rotatedPause)) //nolint:gosec // jitter is no secret
				defer timer.Stop()
				moment = timer.C
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-moment:
			return errors.New(why)
		case <-a.hub.Desired().Changed(index):
		case <-a.admitted.Changed(admitted):
		}
	}
}

// waitRenew returns why the credentials are to be renewed: they end soon, nobody was
// connected for long, or something was rotated.
func (a *Agent) waitRenew(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var rotated sync.WaitGroup
	defer rotated.Wait()
	defer cancel(nil)
	rotated.Go(func() {
		if why := a.waitRotated(ctx); ctx.Err() == nil {
			cancel(why)
		}
	})
	return a.waitLonely(ctx)
}
