package genesis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
)

// byFile is the context of an existing cluster with the gateway, the platform and the trust block of
// its cluster file.
func byFile(c client.Context, want groupfile.Cluster) (client.Context, error) {
	if want.Gateway.Domain == "" {
		want.Gateway.Domain = c.Gateway.Domain
	}
	c.Gateway, c.Platform = client.Gateway(want.Gateway), platformOf(want.Platform)
	trust := want.Trust
	trust.CoordinatorAppID, trust.OperatorTokenSHA256 = c.CoordinatorAppID, c.Trust.OperatorTokenSHA256
	for _, field := range []struct {
		name string
		same bool
	}{
		{"roots_pem", trust.RootsPEM == c.Trust.RootsPEM}, {"allow_simulated", trust.AllowSimulated == c.Trust.AllowSimulated},
		{"key_provider", trust.KeyProvider == c.Trust.KeyProvider},
	} {
		if !field.same {
			return c, fmt.Errorf("trust.%s: the cluster file gives another value: another root of trust or key provider is another cluster; put it back", field.name)
		}
	}
	c.Trust = trust
	return c, nil
}

// Rendering is the digest of the content that a cluster file gives the coordinators of c: the measured
// document, the OS image, the shape and the list of own hosts. It asks nothing, and leaves other env values
// out.
func Rendering(one groupfile.Cluster, c client.Context) (string, error) {
	c, err := byFile(c, one)
	if err != nil {
		return "", err
	}
	co, err := facts(Options{Cluster: one}, c)
	if err != nil {
		return "", err
	}
	want := measured(c, co)
	text, err := want.Rules.Render(want.Name, want.Compose, want.Envs)
	if err != nil {
		return "", fmt.Errorf("coordinators: %w", err)
	}
	text = fmt.Appendf(text, "\n%q %q %d %d", co.OSImage, co.InstanceType, co.DiskGB, co.Replicas)
	if one.Platform.Driver == group.PlatformVMM {
		text = fmt.Appendf(text, " %q", one.Platform.InCVM)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Apply brings the coordinators to the cluster file: it upgrades them if all exist, and makes the missing
// ones otherwise; with o.Env it upgrades the present ones after that. It returns the context, as Create does.
func Apply(ctx context.Context, o Options) (client.Context, error) {
	up, err := PrepareUpgrade(ctx, o)
	switch {
	case errors.Is(err, errNoCoordinators):
	case err != nil:
		return client.Context{}, err
	case !up.Plan.whole() && o.Env:
		if c, err := Create(ctx, o); err != nil {
			return c, err
		}
		return Apply(ctx, o)
	case !up.Plan.whole():
	case up.Plan.Changes(), up.Plan.TrustChanges:
		if err := up.Run(ctx); err != nil {
			return client.Context{}, err
		}
	}
	return Create(ctx, o)
}

var errNoCoordinators = errors.New("the platform has no coordinator of this cluster: there is nothing to change")
