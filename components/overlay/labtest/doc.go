// Package labtest tries the overlay as a whole: nodes and rendezvous servers as
// processes in network namespaces behind NATs of every kind, on links that lose,
// delay and break. It holds tests alone; they need root.
package labtest
