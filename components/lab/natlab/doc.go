// Package natlab puts programs behind address translators of every kind, on
// links of every quality, on one Linux machine: for tests, for benchmarks and for
// the local cloud.
//
//	host "a" (namespace)        box (namespace)             internet (namespace)
//	┌─────────────┐  link   ┌───────────────────┐ cable ┌──────────────────────┐
//	│ eth0 10.64… │◄───────►│ lan0    NAT   wan │◄─────►│ n3   routes between  │
//	└─────────────┘         │        198.18.…   │       │      198.18.0.0/15   │
//	                        └───────────────────┘       └──────────┬───────────┘
//	host "p" (namespace), public                                   │ link
//	┌─────────────┐                                                │
//	│ eth0 198.18…│◄───────────────────────────────────────────────┘
//	└─────────────┘
//
// A link without delay, rate or loss is a veth pair; any other one runs through
// package slowlink, in a process of its own. The delay between two hosts is that
// of both their links. Translation is done by the kernel's connection tracker; the
// mapping and filtering behaviours of RFC 4787 that it does not have are made of
// rules that learn (see nat.go). Every behaviour is tested the way a STUN client
// would find out, not by looking at the rules.
//
// Everything ends with Close. Should the program end without it, the kernel
// removes all of it: namespaces have no names, processes started in hosts are
// killed, the links' process sees its control socket close.
//
// Needs root, /dev/net/tun for emulated links and the nft program for boxes;
// Available says whether this machine has it all.
package natlab
