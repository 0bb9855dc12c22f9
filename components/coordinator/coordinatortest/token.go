package coordinatortest

import (
	"context"
	"errors"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/keys"
)

// ManagementToken returns the Consul management token of the coordinator with this stateDir and
// guest agent, once it knows its cluster ID.
func ManagementToken(ctx context.Context, guest *attest.GuestClient, cluster, stateDir string) (string, error) {
	known, err := bootstrap.Load(stateDir)
	if err != nil {
		return "", err
	}
	if known.ClusterID == "" {
		return "", errors.New("the coordinator knows no cluster ID yet")
	}
	root, err := keys.Derive(ctx, guest, cluster, known.ClusterID)
	if err != nil {
		return "", err
	}
	return root.ManagementToken().RevealString(), nil
}
