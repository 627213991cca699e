// Package debian gets and runs programs of Debian for tests that check Fettle with what others wrote. Where that can't be done, the
// test is skipped and says why. With REAL_PARTS=required in the environment it fails.
package debian
