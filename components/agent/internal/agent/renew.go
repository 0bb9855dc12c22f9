package agent

import (
	"context"
	"errors"
	"fmt"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/renewal"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// take puts new credentials into force.
func (a *Agent) take(admitted admit.Admitted) {
	a.admitted.Set(&admitted)
	node := a.node.Load()
	node.SetCredentials(admitted.Credentials)
	list, _ := a.peers.Get()
	node.SetPeers(list)
	if a.svid != nil {
		if err := a.svid.Write(admitted.Credentials.Certificate, admitted.Grant.GetCaBundlePem()); err != nil {
			a.cfg.Log.Error("certificate files are not up to date", "error", err)
		}
	}
	a.changed.Set(struct{}{})
}

// credentialsOf returns the renewal loop's view of a.
func credentialsOf(a admit.Admitted) renewal.Credentials {
	return renewal.Credentials{Since: a.Since, Ends: a.Ends(), Epoch: a.Grant.GetPolicyEpoch()}
}

// renew keeps the credentials from ending.
func (a *Agent) renew(ctx context.Context) error {
	current, _ := a.admitted.Get()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loop := renewal.Loop{Config: renewal.Config{
		Renew: a.renewOnce,
		Admit: func(ctx context.Context) (renewal.Credentials, error) {
			credentials, err := a.admitOnce(ctx)
			if errors.Is(err, errMoved) {
				cancel(err)
			}
			return credentials, err
		},
		Wanted: func() (uint64, <-chan struct{}) {
			d, index := a.hub.Desired().Get()
			return d.GetPolicyEpoch(), a.hub.Desired().Changed(index)
		},
		Behind: func() string {
			d, _ := a.hub.Desired().Get()
			current, _ := a.admitted.Get()
			return behind(d, current.Grant, a.askedAt.Load())
		},
		Sessions: func() (int, <-chan struct{}) {
			n, index := a.hub.Sessions().Get()
			return n, a.hub.Sessions().Changed(index)
		},
		Forgotten: a.forgotten,
		Denied: func(code string, err error) {
			a.cfg.Log.Error("renewal is denied; the present credentials stay until they expire", "code", code, "error", err)
			if code == string(policy.CodeIncarnationStale) || code == string(policy.CodePeerRevoked) {
				cancel(&admit.EndedError{Code: code, Message: err.Error()})
			}
		}, Log: a.cfg.Log,
	}}
	err := loop.Run(ctx, credentialsOf(*current))
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errMoved):
		return cause
	case admit.OnlyEnded(cause) != nil:
		ended, _ := errors.AsType[*admit.EndedError](cause)
		return a.withdraw(ended)
	}
	return err
}

// renewOnce asks over a control session. New credentials are in force when the
// tokens among them have been seen to work: until then the old ones are.
func (a *Agent) renewOnce(ctx context.Context) (renewal.Credentials, error) {
	current, _ := a.admitted.Get()
	known, _ := a.hub.Desired().Get()
	inUse := current.InUse()
	inUse.KeepsToken = !a.tokenLost
	grant, err := a.hub.Renew(ctx, &admissionv1.RenewRequest{BootId: a.boot.ID, InUse: inUse})
	if err != nil {
		return renewal.Credentials{}, err
	}
	next, err := a.admit.Renewed(*current, grant)
	if err != nil {
		return renewal.Credentials{}, err
	}
	err = a.proveTokens(ctx, next)
	if err != nil && !grant.GetConsul().GetTokenKept() {
		return renewal.Credentials{}, err
	}
	if a.tokenLost = err != nil; a.tokenLost {
		// Consul may have lost the token even if the records have it. The other credentials are good,
		// and the next renewal requests another token.
		a.cfg.Log.Warn("the token that stays in use is unknown to consul", "error", err)
	}
	a.logKeptSecrets(next)
	a.askedAt.Store(known.GetVersion())
	a.take(next)
	return credentialsOf(next), nil
}

// logKeptSecrets logs the secrets that the coordinators could not renew.
func (a *Agent) logKeptSecrets(next admit.Admitted) {
	if kept := next.Grant.GetKeptSecrets(); len(kept) > 0 {
		a.cfg.Log.Warn("the coordinators cannot read which secrets are in force; this boot keeps its present secrets", "secrets", kept)
	}
}

// errMoved ends the agent: everything that it runs has the old name or address.
var errMoved = errors.New("admission now gives this boot another name or address; starting over")

// admitOnce attests again, with the same Boot key.
func (a *Agent) admitOnce(ctx context.Context) (renewal.Credentials, error) {
	current, _ := a.admitted.Get()
	known, _ := a.hub.Desired().Get()
	next, err := a.admit.Again(ctx, *current)
	if err != nil {
		return renewal.Credentials{}, err
	}
	if next.ID != current.ID || next.Grant.GetVip() != current.Grant.GetVip() {
		return renewal.Credentials{}, fmt.Errorf("%w: %s", errMoved, next.ID)
	}
	if !a.hub.Connected() {
		a.peers.Set(next.Peers)
	}
	if err := a.proveTokens(ctx, next); err != nil {
		a.cfg.Log.Warn("tokens of an admission are not known yet", "error", err)
	}
	a.tokenLost = false // this one was made just now
	a.logKeptSecrets(next)
	a.askedAt.Store(known.GetVersion())
	a.take(next)
	return credentialsOf(next), nil
}

// proveTokens waits until Consul knows the workload's new token, and asks through the Consul proxy
// (TOK-13). Without a Consul proxy no workload uses the token.
func (a *Agent) proveTokens(ctx context.Context, next admit.Admitted) error {
	token := next.Grant.GetConsul().GetWorkloadToken()
	if token == "" || a.cfg.Consul == "" {
		return nil
	}
	return a.consulProxy.Knows(ctx, token)
}
