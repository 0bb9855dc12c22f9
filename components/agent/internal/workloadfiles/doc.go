// Package workloadfiles writes the files for this CVM's workloads into a shared tmpfs folder:
//
//	hosts          VIP and Slot name of every Peer, then VIP and name of every route, in
//	               /etc/hosts form; replaced whenever an entry is added, removed or changed
//	env            CADRE_* and CONSUL_HTTP_ADDR, for a POSIX shell
//	secrets/<name> declared secrets, for the owner that the spec names; else
//	               readable by root and the mesh group only
//	secret-epochs.json  the epoch of each secret, to watch for rotations
//	consul-token   the workload's Consul token
//	revision-mark  mark of the measured compose text, which exec compares with its own
//	exec           waits for ready, loads env, then is its workload's init (cadre-exec)
//	exec.sh        becomes exec, for services that start a script
//	ready          created last, when everything above is complete
package workloadfiles
