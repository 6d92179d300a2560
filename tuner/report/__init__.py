"""What a tuning run says about itself."""
