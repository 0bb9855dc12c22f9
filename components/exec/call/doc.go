// Package call is how the agent has a command run in the container of a service: a
// unix socket in a folder that only the two of them mount, one command for each
// connection.
//
//	agent ── Request ──► cadre-exec   starts it
//	      ── end ──────►              kills it and all that came of it
//	      ◄──── Reply ──              once nothing of it is left
//
// Both sides bound a frame before they read it: neither trusts the other with more
// than the command itself.
package call
