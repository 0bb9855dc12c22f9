// Package dstacksdk is the only importer of dstack's Go SDK, and puts Cadre's own bounds around it.
// Decision record 16 lists the used and unused parts, and the inputs for which they differ.
//
//	Client      the guest agent's keys, quotes and facts, over its unix socket
//	SealEnv     environment values, sealed for the guests of an app
//	EnvKeyProof the key service's signature over the key they are sealed for
package dstacksdk
