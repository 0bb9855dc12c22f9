package coordinatortest

import "cadre.dev/core/policy"

// Config of a cluster's coordinators.
type Config struct {
	Cluster string
	// ClusterID is the one of all coordinators, AppID their application, Domain what their
	// gateway routes by.
	ClusterID, AppID, Domain string
	// Consul is the address of its API, Token its management token.
	Consul, Token string
	// PCCS is where collateral is fetched, RootPEM what quotes must lead to.
	PCCS    string
	RootPEM []byte
	Images  policy.ImagePolicy
	// Guests are the sockets of the coordinators' guest agents: one coordinator each.
	Guests []string
}
