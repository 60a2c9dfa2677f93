// Package network shows the promises on real networks: each master is in a network namespace of its
// own, behind a link that loses packets in one or both directions, or the large ones, resets
// connections, is slow, or goes down. `make networks` runs it: it needs Linux, root, and the
// programs ip, tc and nft. The times that it prints are those of this machine.
package network
