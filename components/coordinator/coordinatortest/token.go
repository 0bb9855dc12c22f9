package coordinatortest

import (
	"context"
	"errors"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/founding"
	"cadre.dev/coordinator/internal/keys"
)

// ManagementToken is what may do everything in the Consul of the coordinator whose state is
// in stateDir and whose guest agent is guest, once it knows its founding.
func ManagementToken(ctx context.Context, guest *attest.GuestClient, cluster, stateDir string) (string, error) {
	known, err := founding.Load(stateDir)
	if err != nil {
		return "", err
	}
	if known.Founding == "" {
		return "", errors.New("the coordinator knows no founding yet")
	}
	root, err := keys.Derive(ctx, guest, cluster, known.Founding)
	if err != nil {
		return "", err
	}
	return root.ManagementToken().RevealString(), nil
}
