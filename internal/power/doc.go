// Package power reads and commands the power of one host through its baseboard management controller (BMC), by Redfish or by IPMI.
//
// A Host makes one operation at a time. Its readings are facts for package fencing, which decides what they prove. A reading is On
// or Off only where the BMC says so literally. Failures are values with a reason, made from types of errors and from codes, never
// from text. A text of a BMC may contain a password.
package power
