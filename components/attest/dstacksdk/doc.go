// Package dstacksdk is the only importer of dstack's Go SDK: what Cadre uses of
// it, behind Cadre's own bounds. Decision record 16 says what is used, what is
// not, and which input makes the difference.
//
//	Client      the guest agent's keys, quotes and facts, over its unix socket
//	SealEnv     environment values, sealed for the guests of an app
//	EnvKeyProof the key service's signature over the key they are sealed for
package dstacksdk
