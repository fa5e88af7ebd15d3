"""Numbers that both libraries use."""

import math

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
