// Package call is the protocol with which the agent runs a command in the container of a service: a
// unix socket in a folder that only the two of them mount, one command for each connection.
//
//	agent ── Request ──► cadre-exec   starts it
//	      ── end ──────►              kills it with all its descendants
//	      ◄──── Reply ──              once no process of it is left
//
// Both sides bound a frame before they read it: neither trusts the other with more than the command
// itself.
package call
