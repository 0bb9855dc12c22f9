package coordinatortest

import "cadre.dev/core/policy"

// Config of a cluster's coordinators.
type Config struct {
	Cluster string
	// ClusterID and AppID are those of all coordinators, and Domain is the gateway's domain.
	ClusterID, AppID, Domain string
	// Consul is the address of its API, Token its management token.
	Consul, Token string
	// PCCS is the source of collateral, and RootPEM the root of all quotes.
	PCCS    string
	RootPEM []byte
	Images  policy.ImagePolicy
	// Guests are the sockets of the coordinators' guest agents: one coordinator each.
	Guests []string
}
