// Package kafka knows a Kafka node in KRaft mode, for an adapter (cadre.dev/adapters/serve): a controller, a broker,
// or both in one process.
//
// The controllers are the voters, and the active controller leads. A broker may be stopped while every partition
// that it holds keeps min.insync.replicas without it. Kafka has no call that moves leadership: it elects when the
// active controller stops, and a broker that stops hands its partitions over (`hand_over = "stop"`).
//
// A node's id is its slot's ordinal, plus Config.NodeBase.
package kafka
